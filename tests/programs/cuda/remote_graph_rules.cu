// SPDX-License-Identifier: Apache-2.0
//
// What NVIDIA documents of graphs and the software device does not do: a recording is unusable after
// a call that is not permitted, launches of one graph wait for each other, a kernel runs in the
// context of its node, a graph of code that has ended returns an error.
//
//   remote_graph_rules      checks itself
//   remote_graph_rules N    microseconds for a launch of N kernels, one by one and as a graph

#include <chrono>

#include "graphs.h"

__global__ void nothing(int) {}

static void check_invalidated_captures() {
  int *p = new_ints(0);
  cudaStream_t s = new_stream();
  cudaGraph_t g;
  for (int i = 0; i < 3; i++) {
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    apply<<<1, kN, 0, s>>>(p, kN, 1, 1);
    if (i == 0) CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    if (i == 1) CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    if (i == 2) CHECK(cudaStreamAddCallback(s, [](cudaStream_t, cudaError_t, void *) {}, nullptr, 0) != cudaSuccess);
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    apply<<<1, kN, 0, s>>>(p, kN, 1, 1);
    CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated && !g);
    cudaGetLastError();
  }
  CHECK(first_of(p) == 0);
  CUDA(cudaStreamDestroy(s));
}

// Into a graph of the program, behind nodes that the program names.
static void check_capture_to_a_graph() {
  int *p = new_ints(1);
  CUstream s = new_stream();
  CUgraph g, same;
  CUgraphNode first, more[2];
  OK(cuGraphCreate(&g, 0));
  Apply first_work(p, 2, 3);
  CUDA_KERNEL_NODE_PARAMS k = first_work.driver();
  OK(cuGraphAddKernelNode(&first, g, nullptr, 0, &k));
  OK(cuStreamBeginCaptureToGraph(s, g, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  apply<<<1, kN, 0, s>>>(p, kN, 5, 0);
  Apply second_work(p, 7, 0);
  k = second_work.driver();
  OK(cuGraphAddKernelNode(&more[0], g, &first, 1, &k));
  OK(cuStreamUpdateCaptureDependencies(s, more, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  apply<<<1, kN, 0, s>>>(p, kN, 1, 2);
  OK(cuStreamEndCapture(s, &same));
  CHECK(same == g);
  CUgraphExec e;
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  CHECK(first_of(p) == 5 * 5 * 7 + 2);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

static void check_launches_in_two_streams() {
  int *p = new_ints(1);
  cudaStream_t s = new_stream(), t = new_stream();
  cudaGraph_t g = record_steps(s, p, 2, 1);
  cudaGraphExec_t e = executable(g);
  volatile int open = 0;
  CUDA(cudaLaunchHostFunc(s, [](void *flag) { while (!*static_cast<volatile int *>(flag)); }, (void *)&open));
  CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaGraphLaunch(e, t));
  CHECK(cudaStreamQuery(t) == cudaErrorNotReady);
  open = 1;
  CUDA(cudaStreamSynchronize(t));
  CHECK(first_of(p) == (((1 * 3 + 1) * 3 + 2) * 3 + 1) * 3 + 2);
  CUDA(cudaGraphExecDestroy(e));
}

static void check_two_contexts() {
  int *p = new_ints(1);
  cudaStream_t s = new_stream();
  CUcontext first, second;
  cudaKernel_t kernel;
  CUDA(cudaGetKernel(&kernel, reinterpret_cast<const void *>(apply)));
  OK(cuCtxGetCurrent(&first));
  OK(cuCtxCreate(&second, nullptr, 0, 0));
  OK(cuCtxSetCurrent(first));
  CUgraph g;
  CUgraphNode nodes[3];
  OK(cuGraphCreate(&g, 0));
  for (int i = 0; i < 3; i++) {
    Apply work(p, 3, i);
    CUDA_KERNEL_NODE_PARAMS k = work.driver();
    k.func = nullptr;
    k.kern = reinterpret_cast<CUkernel>(kernel);
    k.ctx = i == 1 ? second : first;
    OK(cuGraphAddKernelNode(&nodes[i], g, i ? &nodes[i - 1] : nullptr, i > 0, &k));
    CUDA_KERNEL_NODE_PARAMS got{};
    OK(cuGraphKernelNodeGetParams(nodes[i], &got));
    CHECK(got.kern == k.kern && got.ctx == k.ctx);
  }
  CUgraphExec e;
  OK(cuGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 2; i++) OK(cuGraphLaunch(e, s));
  CUDA(cudaStreamSynchronize(s));
  int x = 1;
  for (int i = 0; i < 6; i++) x = x * 3 + i % 3;
  CHECK(first_of(p) == x);
  OK(cuCtxDestroy(second));
  CHECK(cuGraphLaunch(e, s) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
}

// Code that a graph needs ends, and the context of its memory.
static void check_what_has_ended() {
  constexpr const char *kCode =
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n";
  cudaStream_t s = new_stream();
  CUcontext first, second;
  CUmodule module;
  CUgraph g;
  CUgraphNode node;
  CUgraphExec e;
  CUDA_KERNEL_NODE_PARAMS k{};
  OK(cuModuleLoadData(&module, kCode));
  OK(cuModuleGetFunction(&k.func, module, "empty"));
  k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddKernelNode(&node, g, nullptr, 0, &k));
  OK(cuGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 3; i++) OK(cuGraphLaunch(e, s));
  OK(cuModuleUnload(module));
  CHECK(cuGraphLaunch(e, s) != CUDA_SUCCESS);
  OK(cuGraphExecDestroy(e));

  OK(cuCtxGetCurrent(&first));
  OK(cuCtxCreate(&second, nullptr, 0, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS m{};
  m.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  m.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  m.bytesize = kBytes;
  OK(cuGraphAddMemAllocNode(&node, g, nullptr, 0, &m));
  CUstream recording;
  OK(cuStreamCreate(&recording, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuCtxDestroy(second));
  OK(cuCtxSetCurrent(first));
  OK(cuCtxSynchronize());  // nothing records any more
  OK(cuGraphDestroy(g));
}

// Two branches that end in one node, which names `first` before `second`.
static cudaGraph_t two_branches(int *p, int *q, int times, bool second_is_older, cudaGraphNode_t &first,
                                cudaGraphNode_t &second) {
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  Apply first_work(p, times, 1), second_work(q, times, 2);
  cudaKernelNodeParams a = first_work.runtime(), b = second_work.runtime();
  if (second_is_older) CUDA(cudaGraphAddKernelNode(&second, g, nullptr, 0, &b));
  CUDA(cudaGraphAddKernelNode(&first, g, nullptr, 0, &a));
  if (!second_is_older) CUDA(cudaGraphAddKernelNode(&second, g, nullptr, 0, &b));
  cudaGraphNode_t both[2] = {first, second}, end;
  CUDA(cudaGraphAddEmptyNode(&end, g, both, 2));
  return g;
}

// Nodes of an update stand for each other by their edges, and not by the order of their creation.
static void check_pairs_of_an_update() {
  int *p = new_ints(0), *q = new_ints(0);
  cudaGraphNode_t first, second, others[2];
  cudaGraph_t g = two_branches(p, q, 2, false, first, second);
  cudaGraph_t by = two_branches(p, q, 3, true, others[0], others[1]);
  cudaGraphExec_t e = executable(g);
  cudaGraphExecUpdateResultInfo info{};
  CUDA(cudaGraphExecUpdate(e, by, &info));
  CUDA(cudaGraphNodeSetEnabled(e, first, 0));
  launch(e, nullptr);
  CHECK(first_of(p) == 0 && first_of(q) == 2);
  CUDA(cudaGraphExecDestroy(e));
}

static int measure(int kernels) {
  using Clock = std::chrono::steady_clock;
  cudaStream_t s = new_stream();
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kernels; i++) nothing<<<1, 1, 0, s>>>(i);
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e = executable(g);
  auto time = [&](auto work) {
    double best = 1e9;
    for (int r = 0; r < 200; r++) {
      auto begin = Clock::now();
      work();
      best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      CUDA(cudaStreamSynchronize(s));
    }
    return best;
  };
  double single = time([&] { for (int i = 0; i < kernels; i++) nothing<<<1, 1, 0, s>>>(i); });
  double graph = time([&] { CUDA(cudaGraphLaunch(e, s)); });
  std::printf("%d launches: %.1f us, as a graph: %.1f us\n", kernels, single, graph);
  return 0;
}

// Only the first stream of a recording must live until its end. One that was not joined before it
// was destroyed is found at the end, as one that lives.
static void check_destroyed_streams() {
  for (bool joined : {true, false}) {
    int *p = new_ints(1);
    cudaStream_t s = new_stream(), other = new_stream();
    cudaEvent_t fork, join;
    cudaGraph_t g = nullptr;
    CUDA(cudaEventCreate(&fork));
    CUDA(cudaEventCreate(&join));
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    apply<<<1, kN, 0, s>>>(p, kN, 2, 1);
    CUDA(cudaEventRecord(fork, s));
    CUDA(cudaStreamWaitEvent(other, fork, 0));
    apply<<<1, kN, 0, other>>>(p, kN, 5, 0);
    CUDA(cudaEventRecord(join, other));
    if (joined) CUDA(cudaStreamWaitEvent(s, join, 0));
    CUDA(cudaStreamDestroy(other));
    CUDA(cudaEventDestroy(fork));
    CUDA(cudaEventDestroy(join));
    apply<<<1, kN, 0, s>>>(p, kN, 1, 4);
    cudaError_t e = cudaStreamEndCapture(s, &g);
    CHECK(e == (joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    cudaGetLastError();
    if (joined) {
      cudaGraphExec_t x;
      CUDA(cudaGraphInstantiate(&x, g, 0));
      CUDA(cudaGraphLaunch(x, s));
      CUDA(cudaStreamSynchronize(s));
      CUDA(cudaGraphExecDestroy(x));
      CUDA(cudaGraphDestroy(g));
    }
    CHECK(first_of(p) == (joined ? (1 * 2 + 1) * 5 + 4 : 1));
    CUDA(cudaStreamDestroy(s));
  }
}

int main(int argc, char **argv) {
  if (argc > 1) return measure(std::atoi(argv[1]));
  CUDA(cudaFree(nullptr));
  check_invalidated_captures();
  check_destroyed_streams();
  check_capture_to_a_graph();
  check_launches_in_two_streams();
  check_two_contexts();
  check_what_has_ended();
  check_pairs_of_an_update();
  return passed();
}
