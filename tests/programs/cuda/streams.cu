// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, callbacks, pinned and mapped memory, graphs, pools, cooperative groups, peers.
#include <cooperative_groups.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void fill(int *p, int v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v;
}
__global__ void add(int *p, const int *q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += q[i];
}
// Waits for the host, which is only possible if the stream runs asynchronously.
__global__ void wait_for(volatile int *flag) {
  while (*flag == 0) {
  }
}

__global__ void together(int *p, int *ok) {
  cg::grid_group g = cg::this_grid();
  unsigned r = g.thread_rank();
  p[r] = r + 1;
  g.sync();
  if (p[(r + 100) % g.size()] != (r + 100) % g.size() + 1) *ok = 0;
  g.sync();
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int sum = tile.thread_rank();
  for (int d = 8; d > 0; d /= 2) sum += tile.shfl_xor(sum, d);
  if (sum != 120) *ok = 0;
}

void check_all(const int *host, int n, int v) {
  for (int i = 0; i < n; ++i) CHECK(host[i] == v);
}

void asynchronous() {
  int *flag, *order;
  CUDA(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
  CUDA(cudaHostAlloc(&order, sizeof(int), cudaHostAllocMapped));
  *flag = *order = 0;
  cudaStream_t a, b;
  CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  cudaEvent_t done;
  CUDA(cudaEventCreate(&done));
  // A kernel may be loaded at its first launch, which waits for those that run (CUDA C++ Programming
  // Guide, "Lazy Loading").
  fill<<<1, 1, 0, b>>>(order, 0, 1);
  CUDA(cudaStreamSynchronize(b));
  wait_for<<<1, 1, 0, a>>>(flag);
  CUDA(cudaEventRecord(done, a));
  CHECK(cudaEventQuery(done) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
  fill<<<1, 1, 0, b>>>(order, 1, 1);
  CUDA(cudaStreamSynchronize(b));
  CHECK(*order == 1);
  CUDA(cudaStreamWaitEvent(b, done, 0));
  fill<<<1, 1, 0, b>>>(order, 2, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(*order == 1);
  *flag = 1;
  CUDA(cudaStreamSynchronize(b));
  CHECK(*order == 2);
  CUDA(cudaEventSynchronize(done));
  CHECK(cudaGetLastError() == cudaSuccess);
}

void callbacks() {
  static std::atomic<int> called{0};
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaLaunchHostFunc(s, [](void *p) { *static_cast<std::atomic<int> *>(p) += 1; }, &called));
  CUDA(cudaStreamSynchronize(s));
  CHECK(called == 1);
  CUDA(cudaStreamDestroy(s));
}

void graph() {
  const int n = 1000;
  int *p, *q;
  CUDA(cudaMalloc(&p, n * sizeof(int)));
  CUDA(cudaMalloc(&q, n * sizeof(int)));
  cudaStream_t s, t;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamCreate(&t));
  cudaEvent_t fork, join;
  CUDA(cudaEventCreate(&fork));
  CUDA(cudaEventCreate(&join));
  CUDA(cudaMemset(p, 0, n * sizeof(int)));
  CUDA(cudaDeviceSynchronize());
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaEventRecord(fork, s));
  CUDA(cudaStreamWaitEvent(t, fork, 0));
  fill<<<4, 256, 0, t>>>(q, 5, n);
  CUDA(cudaEventRecord(join, t));
  CUDA(cudaStreamWaitEvent(s, join, 0));
  add<<<4, 256, 0, s>>>(p, q, n);
  CUDA(cudaStreamEndCapture(s, &g));
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(g, nullptr, &nodes));
  CHECK(nodes == 2);
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 3; ++i) CUDA(cudaGraphLaunch(e, s));
  std::vector<int> host(n);
  CUDA(cudaMemcpyAsync(host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  check_all(host.data(), n, 15);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
}

void explicit_graph() {
  const int n = 500;
  int *p;
  CUDA(cudaMalloc(&p, n * sizeof(int)));
  std::vector<int> host(n);
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  int value = 9, count = n;
  void *args[] = {&p, &value, &count};
  cudaKernelNodeParams k{};
  k.func = reinterpret_cast<void *>(fill);
  k.gridDim = dim3(2);
  k.blockDim = dim3(256);
  k.kernelParams = args;
  cudaGraphNode_t first, second;
  CUDA(cudaGraphAddKernelNode(&first, g, nullptr, 0, &k));
  CUDA(cudaGraphAddMemcpyNode1D(&second, g, &first, 1, host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost));
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  CUDA(cudaGraphLaunch(e, nullptr));
  CUDA(cudaDeviceSynchronize());
  check_all(host.data(), n, 9);
  value = 10;
  CUDA(cudaGraphExecKernelNodeSetParams(e, first, &k));
  CUDA(cudaGraphLaunch(e, nullptr));
  CUDA(cudaDeviceSynchronize());
  check_all(host.data(), n, 10);
}

void pool() {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  int *p;
  CUDA(cudaMallocAsync(&p, 4 << 20, s));
  fill<<<1, 64, 0, s>>>(p, 3, 64);
  int host[64];
  CUDA(cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, s));
  CUDA(cudaFreeAsync(p, s));
  CUDA(cudaStreamSynchronize(s));
  check_all(host, 64, 3);
}

void cooperative() {
  int *p, *ok;
  CUDA(cudaMallocManaged(&p, 1024 * sizeof(int)));
  CUDA(cudaMallocManaged(&ok, sizeof(int)));
  *ok = 1;
  void *args[] = {&p, &ok};
  CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(together), dim3(8), dim3(128), args, 0, nullptr));
  CUDA(cudaDeviceSynchronize());
  CHECK(*ok == 1);
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(together), dim3(100000), dim3(128), args, 0, nullptr) ==
        cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();
}

void peers() {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  const int n = 1000;
  int *p, *q;
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc(&q, n * sizeof(int)));
  fill<<<4, 256>>>(q, 7, n);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaSetDevice(0));
  CUDA(cudaMalloc(&p, n * sizeof(int)));
  CUDA(cudaMemcpyPeer(p, 0, q, 1, n * sizeof(int)));
  CUDA(cudaDeviceEnablePeerAccess(1, 0));
  add<<<4, 256>>>(p, q, n);
  std::vector<int> host(n);
  CUDA(cudaMemcpy(host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost));
  check_all(host.data(), n, 14);
}

// streams graphs: only these.
int main(int argc, char **) {
  // Loading a kernel lazily waits for those that run: for wait_for(), which waits for this thread.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  if (argc > 1) {
    graph();
    explicit_graph();
    return passed();
  }
  asynchronous();
  callbacks();
  graph();
  explicit_graph();
  pool();
  cooperative();
  peers();
  return passed();
}
