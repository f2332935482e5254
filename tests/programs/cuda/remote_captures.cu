// SPDX-License-Identifier: Apache-2.0
//
// Stream capture by both APIs, and what is wrong about captures and graphs. The program checks its
// results, and prints errors.

#include <cstring>
#include <thread>

#include "graphs.h"

constexpr int kForks = 3;

// s forks to t by an event and joins it by another one, several times.
static void check_fork_and_join() {
  int *a = new_ints(1), *b = new_ints(2), *c = new_ints(0);
  cudaStream_t s = new_stream(), t = new_stream();
  cudaEvent_t fork, join_event;
  CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kForks; i++) {
    apply<<<1, kN, 0, s>>>(a, kN, 2, i);
    CUDA(cudaEventRecord(fork, s));
    CUDA(cudaStreamWaitEvent(t, fork));
    apply<<<1, kN, 0, t>>>(b, kN, 3, i);
    join<<<1, kN, 0, t>>>(c, a, b, kN);
    CUDA(cudaEventRecord(join_event, t));
    apply<<<1, kN, 0, s>>>(b + 0, 0, 1, 0);
    CUDA(cudaStreamWaitEvent(s, join_event));
  }
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamIsCapturing(t, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  CUDA(cudaStreamEndCapture(s, &g));
  CUDA(cudaStreamIsCapturing(t, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  size_t nodes = 0, edges = 0;
  CUDA(cudaGraphGetNodes(g, nullptr, &nodes));
  CUDA(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  std::printf("fork and join: %zu nodes, %zu edges\n", nodes, edges);
  CHECK(first_of(a) == 1);  // nothing has run
  cudaGraphExec_t e = executable(g);
  launch(e, s, 5);
  int x = 1, y = 2, z = 0;
  for (int r = 0; r < 5; r++)
    for (int i = 0; i < kForks; i++) {
      x = x * 2 + i;
      y = y * 3 + i;
      z = x * 1000 + y;
    }
  CHECK(first_of(a) == x && first_of(b) == y && first_of(c) == z);
  CUDA(cudaEventRecord(fork, s));  // it is an ordinary event again
  CUDA(cudaEventSynchronize(fork));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  for (int *p : {a, b, c}) CUDA(cudaFree(p));
  for (cudaStream_t stream : {s, t}) CUDA(cudaStreamDestroy(stream));
}

struct Counter {
  int calls = 0, values[kN] = {};
};
static void count(void *data) {
  auto *c = static_cast<Counter *>(data);
  c->calls++;
  for (int &v : c->values) v = c->calls * 10;
}

// A host function writes what the next copy reads, at each launch.
static void check_captured_copies_and_host_functions() {
  cudaStream_t s = new_stream();
  int *p = new_ints(0), *q = new_ints(0);
  static Counter counter;
  int result[kN] = {};
  unsigned char *box, rows[8 * 16] = {}, back[8 * 16] = {};
  size_t pitch;
  CUDA(cudaMallocPitch(&box, &pitch, 16, 8));
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CUDA(cudaLaunchHostFunc(s, count, &counter));
  CUDA(cudaMemcpyAsync(p, counter.values, kBytes, cudaMemcpyHostToDevice, s));
  CUDA(cudaMemcpyAsync(q, p, kBytes, cudaMemcpyDeviceToDevice, s));
  apply<<<1, kN, 0, s>>>(q, kN, 1, 1);
  CUDA(cudaMemcpyAsync(result, q, kBytes, cudaMemcpyDeviceToHost, s));
  CUDA(cudaMemset2DAsync(box, pitch, 3, 16, 8, s));
  CUDA(cudaMemcpy2DAsync(box, pitch, rows, 16, 8, 4, cudaMemcpyHostToDevice, s));
  CUDA(cudaMemcpy2DAsync(back, 16, box, pitch, 16, 8, cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamEndCapture(s, &g));
  CHECK(counter.calls == 0);
  cudaGraphExec_t e = executable(g);
  for (int r = 1; r <= 3; r++) {
    std::memset(rows, r, sizeof rows);  // read at the launch
    launch(e, s);
    CHECK(counter.calls == r && result[0] == r * 10 + 1 && result[kN - 1] == r * 10 + 1);
    for (int y = 0; y < 8; y++)
      for (int x = 0; x < 16; x++) CHECK(back[y * 16 + x] == (y < 4 && x < 8 ? r : 3));
  }
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  for (void *m : {(void *)p, (void *)q, (void *)box}) CUDA(cudaFree(m));
  CUDA(cudaStreamDestroy(s));
}

static void check_capture_information() {
  int *p = new_ints(0);
  cudaStream_t s = new_stream();
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  apply<<<1, kN, 0, s>>>(p, kN, 1, 1);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t g, same;
  const cudaGraphNode_t *last;
  size_t n = 0;
  CUDA(cudaStreamGetCaptureInfo(s, &status, &id, &g, &last, nullptr, &n));
  CHECK(status == cudaStreamCaptureStatusActive && id != 0 && n == 1);
  SAY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaStreamEndCapture(s, &same));
  CHECK(same == g);
  CUDA(cudaGraphDestroy(g));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  CUDA(cudaFree(p));
  CUDA(cudaStreamDestroy(s));
}

// The per-thread default stream is another one in each thread.
static void check_per_thread_streams() {
  int *p[2] = {new_ints(1), new_ints(1)};
  auto record = [&](int i) {
    CUgraph g;
    CUgraphExec e;
    CUDA(cudaSetDevice(0));
    OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int k = 0; k < 10; k++) apply<<<1, kN, 0, cudaStreamPerThread>>>(p[i], kN, 2, i);
    OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &g));
    OK(cuGraphInstantiate(&e, g, 0));
    OK(cuGraphLaunch(e, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
  };
  std::thread other(record, 1);
  record(0);
  other.join();
  CHECK(first_of(p[0]) == 1024 && first_of(p[1]) == 2047);
  for (int *x : p) CUDA(cudaFree(x));
}

static void check_errors() {
  int *p = new_ints(0), not_a_handle = 0;
  cudaStream_t s = new_stream(), t = new_stream();
  cudaEvent_t event, other;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaEventCreate(&other));
  CUgraph g;
  CUgraphNode a, b, c;
  CUgraphExec e = nullptr;
  auto wrong_graph = reinterpret_cast<CUgraph>(&not_a_handle);
  auto wrong_node = reinterpret_cast<CUgraphNode>(&not_a_handle);
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddEmptyNode(&a, g, nullptr, 0));
  OK(cuGraphAddEmptyNode(&b, g, &a, 1));
  OK(cuGraphAddEmptyNode(&c, g, &b, 1));
  SAY(cuGraphAddDependencies(g, &a, &a, nullptr, 1));
  SAY(cuGraphAddDependencies(g, &c, &a, nullptr, 1));
  SAY(cuGraphInstantiate(&e, g, 0));
  SAY(cuGraphRemoveDependencies(g, &c, &b, nullptr, 1));
  SAY(cuGraphAddEmptyNode(&c, g, &wrong_node, 1));
  SAY(cuGraphAddEmptyNode(&c, wrong_graph, nullptr, 0));
  SAY(cuGraphInstantiate(&e, wrong_graph, 0));
  SAY(cuGraphLaunch(reinterpret_cast<CUgraphExec>(&not_a_handle), nullptr));
  SAY(cuGraphDestroyNode(wrong_node));
  CUDA_KERNEL_NODE_PARAMS k{};
  SAY(cuGraphKernelNodeGetParams(a, &k));
  CUDA_MEMSET_NODE_PARAMS fill{reinterpret_cast<CUdeviceptr>(p), 0, 1, 3, 1, 1};
  SAY(cuGraphAddMemsetNode(&c, g, nullptr, 0, &fill, nullptr));
  CUDA_HOST_NODE_PARAMS no_function{};
  SAY(cuGraphAddHostNode(&c, g, nullptr, 0, &no_function));
  OK(cuGraphDestroy(g));
  SAY(cuGraphDestroy(g));
  SAY(cuGraphDestroyNode(a));

  // Each recording ends with the error of the call that is not permitted, or with that of its end.
  SAY(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamEndCapture(s, &g));
  for (int i = 0; i < 6; i++) {
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    apply<<<1, kN, 0, s>>>(p, kN, 1, 1);
    if (i == 0) SAY(cudaStreamSynchronize(s));
    if (i == 1) SAY(cudaStreamQuery(s));
    if (i == 2) SAY(cudaStreamWaitEvent(s, other));  // nothing in the recording has recorded it
    if (i > 2) CUDA(cudaEventRecord(event, s));
    if (i == 3) SAY(cudaEventQuery(event));
    if (i == 4) {
      CUDA(cudaStreamWaitEvent(t, event));
      apply<<<1, kN, 0, t>>>(p, kN, 1, 1);
      SAY(cudaStreamEndCapture(t, &g));
      SAY(cudaStreamEndCapture(s, &g));  // t has not joined
      continue;
    }
    if (i == 5) {
      CUDA(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
      SAY(cudaStreamWaitEvent(t, event));
      (void)cudaStreamEndCapture(t, &g);
    }
    (void)cudaStreamEndCapture(s, &g);
  }
  cudaGetLastError();
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamIsCapturing(t, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  CUDA(cudaEventRecord(event, t));
  CUDA(cudaEventSynchronize(event));
  CHECK(first_of(p) == 0);
  for (cudaStream_t stream : {s, t}) CUDA(cudaStreamDestroy(stream));
  CUDA(cudaFree(p));
}

int main() {
  check_fork_and_join();
  check_captured_copies_and_host_functions();
  check_capture_information();
  check_per_thread_streams();
  check_errors();
  return passed();
}
