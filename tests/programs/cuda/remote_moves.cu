// SPDX-License-Identifier: Apache-2.0
//
// A program that a test moves between devices. The result of each step depends on all steps before:
// on device memory with pointers in it, on variables that only kernels write, on constants, on
// stream-ordered memory, and on what was set for streams, kernels and the context. It checks
// everything against the same steps on the host.
//
//   remote_moves [STEPS [gap]]   prints "step N" after each step; makes as many as the file "steps"
//                                says, or all of them. gap: unloads a library that has variables
//                                and was loaded before its own code
#include <algorithm>

#include "list.h"
#include "wanted_steps.h"

__device__ unsigned salt = 17;
static __device__ unsigned long long steps_done;
__device__ unsigned *remembered;  // an address of device memory
__constant__ unsigned factors[4];

__global__ void step(unsigned *data, int n, const unsigned *extra, unsigned round) {
  extern __shared__ unsigned shared[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[threadIdx.x] = i < n ? data[i] : 0;
  __syncthreads();
  if (i < n) data[i] = shared[threadIdx.x] * factors[i % 4] + salt + extra[i % 64] + round;
}
__global__ void next_salt(unsigned *p) {
  salt = salt * 3 + 1;
  steps_done++;
  if (!remembered) remembered = p;
  *remembered += salt;
}
constexpr int kNodes = 30, kWords = 1 << 16, kThreads = 256;
constexpr unsigned kFactors[4] = {5, 7, 11, 13};
constexpr size_t kSharedBytes = 60 << 10;  // more than a kernel has by default

struct Host {
  std::vector<unsigned> data = std::vector<unsigned>(kWords, 0x01010101u), nodes;
  unsigned salt = 17, sum = 0, remembered = 0, extra[64];
  Host() {
    for (int i = 0; i < kNodes; i++) nodes.push_back(i);
    for (int i = 0; i < 64; i++) extra[i] = i * i;
  }
  void step(unsigned round) {
    for (int i = 0; i < kWords; i++)
      data[i] = data[i] * kFactors[i % 4] + salt + extra[i % 64] + round;
    salt = salt * 3 + 1;
    remembered += salt;
    unsigned s = 0;
    for (int i = kNodes - 1; i >= 0; i--) s = s * 31 + nodes[i]++;
    sum += s;
  }
};

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  cudaLibrary_t library = argc > 2 ? load_library() : nullptr;
  Host host;
  unsigned *data, *sum, *kept, *ordered, *extra, zero = 0;
  CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  CUDA(cudaMemcpyToSymbol(factors, kFactors, sizeof kFactors));
  if (library) CUDA(cudaLibraryUnload(library));
  CUDA(cudaMalloc(&data, kWords * sizeof *data));
  CUDA(cudaMemset(data, 1, kWords * sizeof *data));
  CUDA(cudaMalloc(&sum, sizeof *sum));
  CUDA(cudaMemset(sum, 0, sizeof *sum));
  CUDA(cudaMalloc(&kept, sizeof *kept));
  CUDA(cudaMemset(kept, 0, sizeof *kept));
  CUDA(cudaMallocHost(&extra, sizeof host.extra));
  std::copy_n(host.extra, 64, extra);
  CUDA(cudaMallocAsync(&ordered, sizeof host.extra, nullptr));
  CUDA(cudaMemcpyAsync(ordered, extra, sizeof host.extra, cudaMemcpyDefault, nullptr));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFuncSetAttribute(step, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  Node *list = make_list(kNodes);
  int least, greatest, priority;
  cudaStream_t stream, other;
  cudaEvent_t first, last, never, done;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&first));
  CUDA(cudaEventCreate(&last));
  CUDA(cudaEventCreate(&never));
  CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CUDA(cudaEventRecord(first, stream));
  float before = 0, ms = 0;
  for (int r = 0; r < steps; ++r) {
    step<<<kWords / kThreads, kThreads, kSharedBytes, stream>>>(data, kWords, ordered, r);
    next_salt<<<1, 1, 0, stream>>>(kept);
    CUDA(cudaEventRecord(done, stream));
    CUDA(cudaStreamWaitEvent(other, done));
    walk<<<1, 1, 0, other>>>(list, sum);
    CUDA(cudaStreamSynchronize(other));
    CUDA(cudaEventRecord(last, stream));
    CUDA(cudaStreamSynchronize(stream));
    host.step(r);
    wait_until_wanted(r + 1);
    CUDA(cudaEventElapsedTime(&ms, first, last));
    CHECK(ms >= before);  // also if a move came between the two
    before = ms;
  }
  std::vector<unsigned> all(kWords);
  unsigned found = 0;
  unsigned long long done_steps = 0;
  CUDA(cudaMemcpy(all.data(), data, kWords * sizeof *data, cudaMemcpyDeviceToHost));
  CHECK(all == host.data);
  CUDA(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
  CHECK(found == host.sum);
  CUDA(cudaMemcpy(&found, kept, sizeof found, cudaMemcpyDeviceToHost));
  CHECK(found == host.remembered);
  CUDA(cudaMemcpyFromSymbol(&found, salt, sizeof found));
  CHECK(found == host.salt);
  CUDA(cudaMemcpyFromSymbol(&done_steps, steps_done, sizeof done_steps));
  CHECK(done_steps == static_cast<unsigned long long>(steps));
  size_t stack = 0;
  CUDA(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  CHECK(stack == 2048);
  CUDA(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  CUDA(cudaEventQuery(done));
  CHECK(cudaEventElapsedTime(&ms, first, never) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CUDA(cudaMemcpy(&zero, extra, 0, cudaMemcpyDefault));
  CHECK(std::equal(extra, extra + 64, host.extra));
  CUDA(cudaFreeAsync(ordered, stream));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaEventDestroy(first));
  CUDA(cudaFree(data));
  return passed();
}
