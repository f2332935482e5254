// SPDX-License-Identifier: Apache-2.0
//
// Kernels that read their place in the grid in every way, and what a program can ask about them. The
// output is the same whether they run whole or in slices (ckpt-run --slice).
#include <cooperative_groups.h>
#include <cuda.h>

#include <thread>

#include "check.h"

#define DRIVER(call) CHECK((call) == CUDA_SUCCESS)

__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i] * gridDim.x;
}

__global__ void all_axes(int *out) {
  int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[b * blockDim.x + threadIdx.x] = b * 1000 + threadIdx.x + gridDim.x * gridDim.y * gridDim.z;
}

// Functions that are not inlined, recursive, and called through a pointer.
__device__ __noinline__ int deep(int x) { return x + blockIdx.x * 7 + gridDim.x; }
__device__ __noinline__ int deeper(int x) { return x < 3 ? deeper(x + 1) + deep(x) : deep(x) * 3; }
__device__ int by_pointer(int x) { return deeper(x) ^ blockIdx.x; }
typedef int (*Function)(int);
__device__ Function chosen = by_pointer;
__global__ void functions(int *out) {
  __shared__ int sums[32];
  sums[threadIdx.x] = chosen(threadIdx.x & 3);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sums[31 - threadIdx.x] + deep(threadIdx.x);
}

// The block that arrives last adds up what the others have left.
__device__ unsigned arrived;
__global__ void last_block(const int *in, int *parts, int *out) {
  __shared__ bool last;
  atomicAdd(&parts[blockIdx.x], in[blockIdx.x * blockDim.x + threadIdx.x]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < gridDim.x; i++) sum += parts[i];
  *out = sum;
}

// Each block waits for the one before it.
__global__ void look_back(volatile int *done, volatile int *sums) {
  if (threadIdx.x != 0) return;
  int b = blockIdx.x, before = 0;
  if (b > 0) {
    while (done[b - 1] == 0) {
    }
    before = sums[b - 1];
  }
  sums[b] = before + b;
  __threadfence();
  done[b] = 1;
}

__global__ void stride(int *out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = i * 3 + 1;
}

__global__ void empty() {}

__global__ void whole_grid(int *out) {
  out[blockIdx.x] = blockIdx.x;
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) out[gridDim.x + blockIdx.x] = 10 + out[gridDim.x - 1 - blockIdx.x];
}

struct Small {
  char c;
  short s[3];
};
__global__ void odd_parameters(Small a, char b, int *out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = a.s[threadIdx.x % 3] + a.c + b + blockIdx.x;
}

// `changes` counts how often the stream went from one launch to another.
__global__ void note_launch(int launch, int *last, int *changes) {
  if (threadIdx.x == 0 && atomicExch(last, launch) != launch) atomicAdd(changes, 1);
}

// Prints a hash of `n` numbers in device memory, and clears them.
void report(const char *what, int *device, int n) {
  std::vector<int> host(n);
  CUDA(cudaMemcpy(host.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
  CUDA(cudaMemset(device, 0, n * sizeof(int)));
  unsigned long long hash = 14695981039346656037ull;
  for (int v : host) hash = (hash ^ static_cast<unsigned>(v)) * 1099511628211ull;
  printf("%s %016llx\n", what, hash);
}

constexpr int kNumbers = 1 << 16;

void run_kernels(int *in, int *out) {
  float *f;
  CUDA(cudaMalloc(&f, 3 * 20000 * sizeof(float)));
  CUDA(cudaMemset(f, 1, 3 * 20000 * sizeof(float)));
  add<<<300, 64>>>(f, f + 20000, f + 40000, 19000);
  report("add", reinterpret_cast<int *>(f) + 40000, 20000);
  all_axes<<<dim3(5, 7, 3), 32>>>(out);
  report("all_axes", out, kNumbers);
  functions<<<40, 32>>>(out);
  report("functions", out, kNumbers);
  last_block<<<64, 32>>>(in, out, out + 100);
  report("last_block", out, kNumbers);
  look_back<<<50, 32>>>(out, out + 100);
  report("look_back", out, kNumbers);
  stride<<<16, 64>>>(out, 50000);
  report("stride", out, kNumbers);
  empty<<<dim3(9, 9), 32>>>();
  Small small{5, {100, 200, 300}};
  odd_parameters<<<10, 32>>>(small, 7, out);
  report("odd_parameters", out, kNumbers);
  void *arguments[] = {&out};
  CUDA(cudaLaunchCooperativeKernel(whole_grid, dim3(2), dim3(32), arguments, 0, nullptr));
  report("whole_grid", out, kNumbers);
  CUDA(cudaFree(f));
}

void run_in_graph(int *out) {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  all_axes<<<dim3(4, 4, 2), 32, 0, s>>>(out);
  CUDA(cudaStreamEndCapture(s, &graph));
  int n = 30000;
  void *arguments[] = {&out, &n};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(stride);
  params.gridDim = dim3(8);
  params.blockDim = dim3(32);
  params.kernelParams = arguments;
  size_t count = 1;
  cudaGraphNode_t first, second;
  CUDA(cudaGraphGetNodes(graph, &first, &count));
  CHECK(count == 1);
  CUDA(cudaGraphAddKernelNode(&second, graph, &first, 1, &params));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, s));
  CUDA(cudaStreamSynchronize(s));
  report("graph", out, kNumbers);
  params.gridDim = dim3(3);
  n = 20000;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, second, &params));
  CUDA(cudaGraphLaunch(exec, s));
  CUDA(cudaStreamSynchronize(s));
  report("changed graph", out, kNumbers);
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(s));
}

// Each launch of a stream begins when the one before has ended, whichever threads launch.
void run_in_threads(int *out) {
  constexpr int kLaunches = 12;
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  auto launch = [&](int first) {
    for (int i = first; i < first + kLaunches; i++) note_launch<<<40, 32, 0, s>>>(i, out, out + 1);
  };
  std::thread other(launch, 1000);
  launch(1);
  other.join();
  CUDA(cudaStreamSynchronize(s));
  int changes = 0;
  CUDA(cudaMemcpy(&changes, out + 1, sizeof changes, cudaMemcpyDeviceToHost));
  printf("threads %d\n", changes);
  CUDA(cudaMemset(out, 0, 2 * sizeof(int)));
  CUDA(cudaStreamDestroy(s));
}

// All arguments in one buffer, as programs of the driver API may pass them.
void run_from_buffer(CUfunction stride_function, int *out) {
  struct {
    int *out;
    int n;
  } arguments{out, 40000};
  size_t bytes = 12;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  DRIVER(cuLaunchKernel(stride_function, 20, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  report("buffer", out, kNumbers);
  // A launch that the driver refuses is refused.
  CHECK(cuLaunchKernel(stride_function, 0, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLaunchKernel(stride_function, 20, 70000, 1, 32, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_ERROR_INVALID_VALUE);
}

void ask(const char *name, CUfunction f) {
  printf("%s:", name);
  for (size_t i = 0, offset, bytes; cuFuncGetParamInfo(f, i, &offset, &bytes) == CUDA_SUCCESS; ++i)
    printf(" %zu+%zu", offset, bytes);
  for (int a : {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NUM_REGS,
                CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES}) {
    int value = -1;
    DRIVER(cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(a), f));
    printf(" %d", value);
  }
  int blocks = 0;
  DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0));
  printf(" occupancy %d\n", blocks);
}

CUfunction function_of(const void *kernel) {
  cudaFunction_t f = nullptr;
  CUDA(cudaGetFuncBySymbol(&f, kernel));
  return f;
}

int main() {
  int *in, *out;
  CUDA(cudaMalloc(&in, kNumbers * sizeof(int)));
  CUDA(cudaMalloc(&out, kNumbers * sizeof(int)));
  CUDA(cudaMemset(in, 3, kNumbers * sizeof(int)));
  CUDA(cudaMemset(out, 0, kNumbers * sizeof(int)));
  // First, because the software device counts the memory of functions when they are called.
  ask("functions", function_of(reinterpret_cast<void *>(functions)));
  ask("odd_parameters", function_of(reinterpret_cast<void *>(odd_parameters)));
  run_kernels(in, out);
  run_in_graph(out);
  run_in_threads(out);
  run_from_buffer(function_of(reinterpret_cast<void *>(stride)), out);
  CUDA(cudaDeviceSynchronize());
  return passed();
}
