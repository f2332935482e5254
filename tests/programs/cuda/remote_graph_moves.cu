// SPDX-License-Identifier: Apache-2.0
//
// A program that a test moves between devices, with graphs: an executable graph that was made before
// the first step is launched in each one, in one of two streams, and changed in between. A recording
// begins before each move and ends after it. All results are checked on the host.
//
//   remote_graph_moves [STEPS]   prints "step N" after each step; makes as many as the file "steps"
//                                says, or all of them
#include "wanted_steps.h"

__device__ unsigned salt = 17;

__global__ void apply(unsigned *p, int n, unsigned times, unsigned plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * times + plus + salt;
}
__global__ void take(unsigned *p, const unsigned *from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] ^= from[i];
}
__global__ void next_salt() { salt = salt * 3 + 1; }

constexpr int kN = 4096, kThreads = 256;
constexpr size_t kBytes = kN * sizeof(unsigned);

struct Input {
  unsigned round = 0;
  std::vector<unsigned> values = std::vector<unsigned>(kN);
};
static void next_input(void *data) {
  auto *in = static_cast<Input *>(data);
  in->round++;
  for (int i = 0; i < kN; i++) in->values[i] = in->round * i;
}

// host function -> copy -> memory of the graph -> two kernels -> copy to `out`
static cudaGraphExec_t make_graph(cudaStream_t s, unsigned *data, Input &in, unsigned *out,
                                  cudaGraph_t &g) {
  unsigned *own;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&own, kBytes, s));
  CUDA(cudaLaunchHostFunc(s, next_input, &in));
  CUDA(cudaMemcpyAsync(own, in.values.data(), kBytes, cudaMemcpyHostToDevice, s));
  apply<<<kN / kThreads, kThreads, 0, s>>>(data, kN, 5, 1);
  take<<<kN / kThreads, kThreads, 0, s>>>(data, own, kN);
  next_salt<<<1, 1, 0, s>>>();
  CUDA(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, s));
  CUDA(cudaFreeAsync(own, s));
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  return e;
}

// The first kernel node of the graph.
static cudaGraphNode_t first_kernel(cudaGraph_t g) {
  cudaGraphNode_t nodes[16];
  size_t n = 16;
  CUDA(cudaGraphGetNodes(g, nodes, &n));
  for (size_t i = 0; i < n; i++) {
    cudaGraphNodeType type;
    CUDA(cudaGraphNodeGetType(nodes[i], &type));
    if (type == cudaGraphNodeTypeKernel) return nodes[i];
  }
  std::exit(1);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  unsigned *data, *recorded;
  CUDA(cudaMalloc(&data, kBytes));
  CUDA(cudaMalloc(&recorded, kBytes));
  CUDA(cudaMemset(data, 0, kBytes));
  CUDA(cudaMemset(recorded, 0, kBytes));
  CUDA(cudaDeviceSynchronize());
  cudaStream_t streams[2], other;
  for (cudaStream_t &s : streams) CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  Input in;
  std::vector<unsigned> out(kN), expected(kN), recorded_out(kN);
  unsigned wanted_salt = 17;
  unsigned recorded_value = 0;
  cudaGraph_t g;
  cudaGraphExec_t e = make_graph(streams[0], data, in, out.data(), g);
  cudaGraphNode_t kernel = first_kernel(g);
  for (int r = 0; r < steps; r++) {
    unsigned times = 5 + r, plus = 1;
    int n = kN;
    cudaKernelNodeParams k{};
    CUDA(cudaGraphKernelNodeGetParams(kernel, &k));
    CHECK(*static_cast<unsigned **>(k.kernelParams[0]) == data);
    void *args[] = {&data, &n, &times, &plus};
    k.kernelParams = args;
    CUDA(cudaGraphExecKernelNodeSetParams(e, kernel, &k));
    CUDA(cudaGraphLaunch(e, streams[r % 2]));
    CUDA(cudaStreamSynchronize(streams[r % 2]));
    for (unsigned i = 0; i < kN; i++)
      expected[i] = (expected[i] * times + plus + wanted_salt) ^ ((r + 1) * i);
    wanted_salt = wanted_salt * 3 + 1;
    CHECK(out == expected);

    // A recording over the move, in two streams.
    CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
    apply<<<kN / kThreads, kThreads, 0, other>>>(recorded, kN, 2, r);
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(streams[0], event));
    wait_until_wanted(r + 1);
    apply<<<kN / kThreads, kThreads, 0, streams[0]>>>(recorded, kN, 3, 1);
    CUDA(cudaEventRecord(event, streams[0]));
    CUDA(cudaStreamWaitEvent(other, event));
    CUDA(cudaMemcpyAsync(recorded_out.data(), recorded, kBytes, cudaMemcpyDeviceToHost, other));
    cudaGraph_t once;
    CUDA(cudaStreamEndCapture(other, &once));
    cudaGraphExec_t run;
    CUDA(cudaGraphInstantiate(&run, once, 0));
    CUDA(cudaGraphLaunch(run, other));
    CUDA(cudaStreamSynchronize(other));
    recorded_value = (recorded_value * 2 + r + wanted_salt) * 3 + 1 + wanted_salt;
    for (unsigned x : recorded_out) CHECK(x == recorded_value);
    CUDA(cudaGraphExecDestroy(run));
    CUDA(cudaGraphDestroy(once));
  }
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(data));
  CUDA(cudaFree(recorded));
  return passed();
}
