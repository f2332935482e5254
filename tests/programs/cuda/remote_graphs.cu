// SPDX-License-Identifier: Apache-2.0
//
// Graphs and stream capture by both APIs: built, recorded, changed, copied, and launched often. The
// program checks its results, and prints errors and what it has asked of graphs.
//
//   remote_graphs          all that both the software device and devices of other nodes do
//   remote_graphs rules    what NVIDIA documents and the software device does not do: a recording
//                          is unusable after a call that is not permitted, launches of one graph
//                          wait for each other, a kernel runs in the context of its node,
//                          a graph whose code has ended returns an error
//   remote_graphs times N  microseconds for a launch of N kernels, one by one and as a graph
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

#define OK(call)                                                                        \
  do {                                                                                  \
    CUresult error_ = (call);                                                           \
    if (error_ != CUDA_SUCCESS) {                                                       \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)error_); \
      std::exit(1);                                                                     \
    }                                                                                   \
  } while (0)
#define SAY(call) std::printf("%s: %d\n", #call, static_cast<int>(call))

// Not commutative, so that the order of kernels shows.
__global__ void apply(int *p, int n, int times, int plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * times + plus;
}
__global__ void join(int *to, const int *a, const int *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = a[i] * 1000 + b[i];
}
__global__ void nothing(int) {}

constexpr int kN = 64;
constexpr size_t kBytes = kN * sizeof(int);
constexpr int kForks = 3;

static int *new_ints(int value) {
  int *p;
  std::vector<int> all(kN, value);
  CUDA(cudaMalloc(&p, kBytes));
  CUDA(cudaMemcpy(p, all.data(), kBytes, cudaMemcpyHostToDevice));
  return p;
}
static int first_of(const int *p) {
  std::vector<int> all(kN);
  CUDA(cudaMemcpy(all.data(), p, kBytes, cudaMemcpyDeviceToHost));
  for (int x : all) CHECK(x == all[0]);
  return all[0];
}
static cudaStream_t new_stream() {
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}

static CUfunction function_of(const void *kernel) {
  cudaKernel_t k;
  CUfunction f;
  CUDA(cudaGetKernel(&k, kernel));
  OK(cuKernelGetFunction(&f, reinterpret_cast<CUkernel>(k)));
  return f;
}

// Parameters of a node that computes p = p * times + plus.
struct Apply {
  int *p, n = kN, times, plus;
  void *args[4] = {&p, &n, &times, &plus};
  Apply(int *p, int times, int plus) : p(p), times(times), plus(plus) {}
  CUDA_KERNEL_NODE_PARAMS driver() {
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = function_of(reinterpret_cast<const void *>(apply));
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
    k.blockDimX = kN;
    k.kernelParams = args;
    return k;
  }
  cudaKernelNodeParams runtime() {
    cudaKernelNodeParams k{};
    k.func = reinterpret_cast<void *>(apply);
    k.gridDim = 1;
    k.blockDim = kN;
    k.kernelParams = args;
    return k;
  }
};

static cudaGraphExec_t executable(cudaGraph_t g) {
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  return e;
}
static void launch(cudaGraphExec_t e, cudaStream_t s, int times = 1) {
  for (int i = 0; i < times; i++) CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaStreamSynchronize(s));
}

// The nodes are made in the reverse of the order in which they must run.
static void check_order_of_built_nodes() {
  int *p = new_ints(1);
  CUgraph g;
  CUgraphNode nodes[4];
  OK(cuGraphCreate(&g, 0));
  for (int i = 0; i < 4; i++) {
    CUDA_KERNEL_NODE_PARAMS k = Apply(p, 3, i).driver();
    OK(cuGraphAddKernelNode(&nodes[i], g, nullptr, 0, &k));
  }
  for (int i = 0; i < 3; i++)
    OK(cuGraphAddDependencies(g, &nodes[i + 1], &nodes[i], nullptr, 1));
  CUgraphExec e;
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, nullptr));
  int expected = 1;
  for (int i = 3; i >= 0; i--) expected = expected * 3 + i;
  CHECK(first_of(p) == expected);
  size_t n = 0, edges = 0;
  OK(cuGraphGetNodes(g, nullptr, &n));
  OK(cuGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  CUgraphNode root;
  size_t roots = 1, none = 4;
  OK(cuGraphGetRootNodes(g, &root, &roots));
  CHECK(n == 4 && edges == 3 && roots == 1 && root == nodes[3]);
  CUgraphNode after[4];
  OK(cuGraphNodeGetDependentNodes(nodes[0], after, nullptr, &none));
  CHECK(none == 0 && after[0] == nullptr);
  OK(cuGraphNodeGetDependencies(nodes[0], nullptr, nullptr, &none));
  CHECK(none == 1);
  OK(cuGraphDestroyNode(nodes[1]));
  OK(cuGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  std::printf("edges without a node: %zu\n", edges);
  OK(cuGraphDestroy(g));
  OK(cuGraphLaunch(e, nullptr));  // it has a copy of its own
  OK(cuStreamSynchronize(nullptr));
  OK(cuGraphExecDestroy(e));
  CUDA(cudaFree(p));
}

// memset -> two kernels -> one -> copy
static void check_a_diamond() {
  int *a = new_ints(0), *b = new_ints(0), *c = new_ints(0), host[kN] = {};
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  cudaGraphNode_t fill_a, fill_b, one, two, both, copy, deps[2];
  cudaMemsetParams fill{a, 0, 5, 4, kN, 1};
  CUDA(cudaGraphAddMemsetNode(&fill_a, g, nullptr, 0, &fill));
  fill.dst = b;
  CUDA(cudaGraphAddMemsetNode(&fill_b, g, nullptr, 0, &fill));
  Apply first(a, 2, 1), second(b, 3, 2);
  cudaKernelNodeParams k = first.runtime();
  CUDA(cudaGraphAddKernelNode(&one, g, &fill_a, 1, &k));
  k = second.runtime();
  CUDA(cudaGraphAddKernelNode(&two, g, &fill_b, 1, &k));
  int n = kN;
  void *args[] = {&c, &a, &b, &n};
  k.func = reinterpret_cast<void *>(join);
  k.kernelParams = args;
  deps[0] = one, deps[1] = two;
  CUDA(cudaGraphAddKernelNode(&both, g, deps, 2, &k));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, g, &both, 1, host, c, kBytes, cudaMemcpyDeviceToHost));
  first.times = second.times = 100;  // copied when the nodes were made
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr);
  CHECK(host[0] == 11 * 1000 + 17 && host[kN - 1] == host[0]);

  // Each node by itself.
  fill.dst = a;
  fill.value = 7;
  CUDA(cudaGraphExecMemsetNodeSetParams(e, fill_a, &fill));
  k = Apply(b, 4, 0).runtime();
  CUDA(cudaGraphExecKernelNodeSetParams(e, two, &k));
  int other[kN] = {};
  CUDA(cudaGraphExecMemcpyNodeSetParams1D(e, copy, other, c, kBytes, cudaMemcpyDefault));
  launch(e, nullptr);
  CHECK(other[0] == 15 * 1000 + 20 && host[0] == 11 * 1000 + 17);
  unsigned enabled = 0;
  CUDA(cudaGraphNodeSetEnabled(e, one, 0));
  CUDA(cudaGraphNodeGetEnabled(e, one, &enabled));
  CHECK(enabled == 0);
  launch(e, nullptr);
  CHECK(other[0] == 7 * 1000 + 20);
  CUDA(cudaGraphNodeSetEnabled(e, one, 1));
  launch(e, nullptr);
  CHECK(other[0] == 15 * 1000 + 20);

  // The parameters that a node returns are its own.
  cudaKernelNodeParams got{};
  CUDA(cudaGraphKernelNodeGetParams(one, &got));
  CHECK(got.func == reinterpret_cast<void *>(apply) && got.blockDim.x == kN);
  CHECK(*static_cast<int *>(got.kernelParams[2]) == 2 && *static_cast<int **>(got.kernelParams[0]) == a);
  cudaGraphNodeType type;
  CUDA(cudaGraphNodeGetType(copy, &type));
  CHECK(type == cudaGraphNodeTypeMemcpy);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
  CUDA(cudaFree(c));
}

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

static void check_memory() {
  cudaStream_t s = new_stream();
  int *p, result[kN] = {};
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&p, kBytes, s));
  CUDA(cudaMemsetAsync(p, 0, kBytes, s));
  apply<<<1, kN, 0, s>>>(p, kN, 1, 4);
  CUDA(cudaMemcpyAsync(result, p, kBytes, cudaMemcpyDefault, s));
  CUDA(cudaFreeAsync(p, s));
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e = executable(g);
  launch(e, s, 3);
  CHECK(result[0] == 4 && result[kN - 1] == 4);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));

  cudaMemAllocNodeParams m{};
  m.poolProps.allocType = cudaMemAllocationTypePinned;
  m.poolProps.location = {cudaMemLocationTypeDevice, 0};
  m.bytesize = kBytes;
  cudaGraphNode_t node;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaGraphAddMemAllocNode(&node, g, nullptr, 0, &m));
  CUDA_MEM_ALLOC_NODE_PARAMS same{};
  OK(cuGraphMemAllocNodeGetParams(node, &same));
  CHECK(same.dptr == reinterpret_cast<CUdeviceptr>(m.dptr) && same.bytesize == kBytes);
  e = executable(g);
  CUDA(cudaGraphLaunch(e, s));
  SAY(cudaGraphLaunch(e, s));
  CUDA(cudaFreeAsync(m.dptr, s));
  CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  unsigned long long flags = 0;
  CUDA(cudaGraphExecGetFlags(e, &flags));
  CHECK(flags == cudaGraphInstantiateFlagAutoFreeOnLaunch);
  launch(e, s, 2);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaMemset(m.dptr, 1, kBytes));  // the memory outlives the graph
  CUDA(cudaFree(m.dptr));
  SAY(cudaDeviceGraphMemTrim(0));
  CUDA(cudaStreamDestroy(s));
}

// A graph within a graph within a graph; and one that is launched while another is recorded.
static void check_children_and_clones() {
  int *p = new_ints(1);
  cudaGraph_t leaf, middle, top, clone, inner;
  cudaGraphNode_t kernel, a, b, c, found;
  CUDA(cudaGraphCreate(&leaf, 0));
  CUDA(cudaGraphCreate(&middle, 0));
  CUDA(cudaGraphCreate(&top, 0));
  cudaKernelNodeParams k = Apply(p, 2, 1).runtime();
  CUDA(cudaGraphAddKernelNode(&kernel, leaf, nullptr, 0, &k));
  CUDA(cudaGraphAddChildGraphNode(&a, middle, nullptr, 0, leaf));
  CUDA(cudaGraphAddChildGraphNode(&b, middle, &a, 1, leaf));
  CUDA(cudaGraphAddChildGraphNode(&c, top, nullptr, 0, middle));
  CUDA(cudaGraphClone(&clone, top));
  CUDA(cudaGraphNodeFindInClone(&found, c, clone));
  CHECK(found != c);
  SAY(cudaGraphNodeFindInClone(&found, kernel, clone));
  CUDA(cudaGraphChildGraphNodeGetGraph(c, &inner));
  size_t n = 0;
  CUDA(cudaGraphGetNodes(inner, nullptr, &n));
  CHECK(n == 2);
  CUDA(cudaGraphDestroy(leaf));
  CUDA(cudaGraphDestroy(middle));
  cudaGraphExec_t e = executable(top), cloned = executable(clone);
  CUDA(cudaGraphDestroy(top));
  CUDA(cudaGraphDestroy(clone));
  launch(e, nullptr);
  CHECK(first_of(p) == 7);
  launch(cloned, nullptr);
  CHECK(first_of(p) == 31);
  cudaStream_t s = new_stream();
  cudaGraph_t recorded;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  CUDA(cudaGraphLaunch(e, s));
  apply<<<1, kN, 0, s>>>(p, kN, 10, 0);
  CUDA(cudaStreamEndCapture(s, &recorded));
  cudaGraphExec_t outer = executable(recorded);
  launch(outer, s);
  CHECK(first_of(p) == 127 * 10);
  for (cudaGraphExec_t x : {e, cloned, outer}) CUDA(cudaGraphExecDestroy(x));
  CUDA(cudaGraphDestroy(recorded));
  CUDA(cudaFree(p));
  CUDA(cudaStreamDestroy(s));
}

static cudaGraph_t record_steps(cudaStream_t s, int *p, int steps, int plus) {
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < steps; i++) apply<<<1, kN, 0, s>>>(p, kN, 3, plus + i);
  CUDA(cudaStreamEndCapture(s, &g));
  return g;
}

static void check_updates() {
  int *p = new_ints(0), *q = new_ints(0);
  cudaStream_t s = new_stream();
  cudaGraph_t g = record_steps(s, p, 3, 1), same = record_steps(s, q, 3, 5);
  cudaGraph_t longer = record_steps(s, q, 4, 1);
  cudaGraphExec_t e = executable(g);
  launch(e, s);
  CHECK(first_of(p) == (1 * 3 + 2) * 3 + 3);
  cudaGraphExecUpdateResultInfo info{};
  CUDA(cudaGraphExecUpdate(e, same, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  launch(e, s);
  CHECK(first_of(q) == (5 * 3 + 6) * 3 + 7 && first_of(p) == 18);
  SAY(cudaGraphExecUpdate(e, longer, &info));
  std::printf("result of the update: %d\n", info.result);
  launch(e, s);
  int x = (5 * 3 + 6) * 3 + 7;
  x = ((x * 3 + 5) * 3 + 6) * 3 + 7;
  CHECK(first_of(q) == x);
  CUgraphNode nodes[3];
  size_t n = 3;
  OK(cuGraphGetNodes(same, nodes, &n));
  CUDA_KERNEL_NODE_PARAMS k = Apply(q, 0, 9).driver();
  OK(cuGraphExecKernelNodeSetParams(e, nodes[2], &k));
  launch(e, s);
  CHECK(first_of(q) == 9);
  for (cudaGraph_t x : {g, same, longer}) CUDA(cudaGraphDestroy(x));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaFree(p));
  CUDA(cudaFree(q));
  CUDA(cudaStreamDestroy(s));
}

static void check_many_launches() {
  int *p = new_ints(0);
  unsigned expected = 0;
  cudaStream_t s = new_stream();
  cudaGraph_t g = record_steps(s, p, 20, 1);
  cudaGraphExec_t e = executable(g);
  launch(e, s, 100);
  for (int r = 0; r < 100; r++)
    for (unsigned i = 0; i < 20; i++) expected = expected * 3 + 1 + i;
  CHECK(static_cast<unsigned>(first_of(p)) == expected);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
  CUDA(cudaStreamDestroy(s));
}

// An event is recorded by one graph, and another one waits for it.
static void check_events() {
  int *p = new_ints(1);
  cudaStream_t s = new_stream(), t = new_stream();
  cudaEvent_t done, same;
  CUDA(cudaEventCreate(&done));
  cudaGraph_t first, second;
  cudaGraphNode_t kernel, record, wait;
  CUDA(cudaGraphCreate(&first, 0));
  CUDA(cudaGraphCreate(&second, 0));
  cudaKernelNodeParams k = Apply(p, 1, 4).runtime();
  CUDA(cudaGraphAddKernelNode(&kernel, first, nullptr, 0, &k));
  CUDA(cudaGraphAddEventRecordNode(&record, first, &kernel, 1, done));
  CUDA(cudaGraphAddEventWaitNode(&wait, second, nullptr, 0, done));
  k = Apply(p, 10, 0).runtime();
  CUDA(cudaGraphAddKernelNode(&kernel, second, &wait, 1, &k));
  CUDA(cudaGraphEventRecordNodeGetEvent(record, &same));
  CHECK(same == done);
  cudaGraphExec_t a = executable(first), b = executable(second);
  CUDA(cudaGraphLaunch(a, s));
  launch(b, t);
  CUDA(cudaEventQuery(done));
  CHECK(first_of(p) == 50);
  for (cudaGraphExec_t e : {a, b}) CUDA(cudaGraphExecDestroy(e));
  for (cudaGraph_t g : {first, second}) CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
  for (cudaStream_t stream : {s, t}) CUDA(cudaStreamDestroy(stream));
}

// The object ends with the last graph that has it, and not before the host function has run.
static void check_user_objects() {
  static int destroyed = 0;
  cudaUserObject_t object;
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaUserObjectCreate(&object, &destroyed, [](void *n) { ++*static_cast<int *>(n); }, 2,
                            cudaUserObjectNoDestructorSync));
  CUDA(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
  CUDA(cudaUserObjectRelease(object, 1));
  cudaGraphExec_t e = executable(g);
  CUDA(cudaGraphDestroy(g));
  CHECK(destroyed == 0);
  CUDA(cudaGraphExecDestroy(e));
  CHECK(destroyed == 1);
  SAY(cudaUserObjectRelease(object, 1));
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
  CUDA_KERNEL_NODE_PARAMS k = Apply(p, 2, 3).driver();
  OK(cuGraphAddKernelNode(&first, g, nullptr, 0, &k));
  OK(cuStreamBeginCaptureToGraph(s, g, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  apply<<<1, kN, 0, s>>>(p, kN, 5, 0);
  k = Apply(p, 7, 0).driver();
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

int main(int argc, char **argv) {
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "times") return measure(std::atoi(argv[2]));
  if (what == "rules") {
    CUDA(cudaFree(nullptr));
    check_invalidated_captures();
    check_capture_to_a_graph();
    check_launches_in_two_streams();
    check_two_contexts();
    check_what_has_ended();
    return passed();
  }
  check_order_of_built_nodes();
  check_a_diamond();
  check_fork_and_join();
  check_captured_copies_and_host_functions();
  check_memory();
  check_children_and_clones();
  check_updates();
  check_many_launches();
  check_events();
  check_user_objects();
  check_capture_information();
  check_per_thread_streams();
  check_errors();
  return passed();
}
