// SPDX-License-Identifier: Apache-2.0
//
// Graphs of kernels with many blocks, of copies, fills, host functions, events and child graphs: made
// by capture and node by node, changed in every way, and launched in several streams. The output is
// the same whether the kernels run whole or in slices (ckpt-run --slice).
#include <cooperative_groups.h>
#include <cuda.h>

#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

constexpr int kThreads = 32, kBlocks = 50, kN = kThreads * kBlocks;
constexpr size_t kBytes = kN * sizeof(int);

// Depends on the place in the grid, on its size, and on the order of launches.
__global__ void mix(int *p, int times, int plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  p[i] = p[i] * times + plus + blockIdx.x + 100 * gridDim.x;
}
__global__ void add(int *to, const int *from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = to[i] * 7 + from[i];
}

// Needs all blocks on the device at once.
__global__ void whole_grid(int *p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  int other = p[n - 1 - i];
  cooperative_groups::this_grid().sync();
  p[i] = p[i] * 3 + other;
}
// Between the two kernels of one graph, no other graph's may run.
__global__ void take(int *owner, int id) {
  if (threadIdx.x == 0) *owner = id;
}
__global__ void check(const int *owner, int id, int *errors) {
  if (threadIdx.x == 0 && *owner != id) atomicAdd(errors, 1);
}

static int *new_ints() {
  int *p;
  CUDA(cudaMalloc(&p, kBytes));
  CUDA(cudaMemset(p, 0, kBytes));
  CUDA(cudaDeviceSynchronize());  // streams that do not wait for the default one use it
  return p;
}
static cudaStream_t new_stream() {
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}
static cudaEvent_t new_event() {
  cudaEvent_t e;
  CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  return e;
}
static cudaGraphExec_t executable(cudaGraph_t g) {
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  return e;
}

// Prints a hash of memory of the device, after all work.
static void report(const char *what, const int *device) {
  std::vector<int> host(kN);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(host.data(), device, kBytes, cudaMemcpyDeviceToHost));
  unsigned long long hash = 14695981039346656037ull;
  for (int v : host) hash = (hash ^ static_cast<unsigned>(v)) * 1099511628211ull;
  std::printf("%s %016llx\n", what, hash);
}
static void report(const char *what, const std::vector<int> &host) {
  unsigned long long sum = 0;
  CUDA(cudaDeviceSynchronize());
  for (int v : host) sum = sum * 31 + static_cast<unsigned>(v);
  std::printf("%s %016llx\n", what, sum);
}

// Parameters of a node that runs mix().
struct Mix {
  int *p, times, plus;
  void *args[3] = {&p, &times, &plus};
  Mix(int *p, int times, int plus) : p(p), times(times), plus(plus) {}
  cudaKernelNodeParams params(int blocks = kBlocks) {
    cudaKernelNodeParams k{};
    k.func = reinterpret_cast<void *>(mix);
    k.gridDim = blocks;
    k.blockDim = kThreads;
    k.kernelParams = args;
    return k;
  }
};

// In ordinary memory, as copies of graphs may use it.
struct Counted {
  std::vector<int> values = std::vector<int>(kN);
  int calls = 0, step = 1;
  bool released = false;
};
// Slow, so that what does not wait for it comes before it.
static void count(void *data) {
  auto *c = static_cast<Counted *>(data);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  CHECK(!c->released);
  c->calls++;
  for (int &v : c->values) v += c->step;
}

// Two branches that meet again; then a host function, whose result a copy brings to the device.
static cudaGraph_t record_branches(int *a, int *b, Counted *counted, int plus) {
  cudaStream_t s = new_stream(), t = new_stream();
  cudaEvent_t fork = new_event(), join = new_event();
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  mix<<<kBlocks, kThreads, 0, s>>>(a, 3, plus);
  CUDA(cudaEventRecord(fork, s));
  CUDA(cudaStreamWaitEvent(t, fork, 0));
  mix<<<kBlocks, kThreads, 0, t>>>(b, 5, plus + 1);
  add<<<kBlocks / 2, kThreads, 0, t>>>(b, a);
  CUDA(cudaMemsetAsync(a + kN / 2, plus, kBytes / 4, s));
  CUDA(cudaEventRecord(join, t));
  CUDA(cudaStreamWaitEvent(s, join, 0));
  add<<<kBlocks, kThreads, 0, s>>>(a, b);
  CUDA(cudaLaunchHostFunc(s, count, counted));
  CUDA(cudaMemcpyAsync(a, counted->values.data(), kBytes / 8, cudaMemcpyHostToDevice, s));
  CUDA(cudaStreamEndCapture(s, &g));
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaStreamDestroy(t));
  CUDA(cudaEventDestroy(fork));
  CUDA(cudaEventDestroy(join));
  return g;
}

// Each launch is ordered behind the one before, whichever stream that was in.
static void check_captured() {
  int *a = new_ints(), *b = new_ints();
  Counted counted;
  cudaGraph_t g = record_branches(a, b, &counted, 2);
  cudaGraphExec_t e = executable(g);
  CUDA(cudaGraphDestroy(g));
  cudaStream_t streams[] = {new_stream(), new_stream(), new_stream(), nullptr, cudaStreamPerThread};
  for (int i = 0; i < 15; i++) CUDA(cudaGraphLaunch(e, streams[i % 5]));
  report("captured a", a);
  report("captured b", b);
  report("host function", counted.values);
  CHECK(counted.calls == 15);

  // Updated with another graph of the same shape, many times, as programs with growing inputs do.
  for (int i = 0; i < 6; i++) {
    g = record_branches(a, b, &counted, 10 * i);
    cudaGraphExecUpdateResultInfo info{};
    CUDA(cudaGraphExecUpdate(e, g, &info));
    CUDA(cudaGraphDestroy(g));
    CUDA(cudaGraphLaunch(e, streams[i % 3]));
  }
  report("updated a", a);
  report("updated b", b);
  CHECK(counted.calls == 21);

  // Into a stream that records: it becomes a child graph.
  cudaStream_t s = streams[0];
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  mix<<<kBlocks, kThreads, 0, s>>>(a, 2, 1);
  CUDA(cudaGraphLaunch(e, s));
  mix<<<kBlocks, kThreads, 0, s>>>(a, 3, 4);
  CUDA(cudaGraphLaunch(e, streams[1]));  // while another stream records
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t outer = executable(g);
  CUDA(cudaStreamSynchronize(streams[1]));
  for (int i = 0; i < 3; i++) CUDA(cudaGraphLaunch(outer, streams[i]));
  // Destroyed while they may still run.
  CUDA(cudaGraphExecDestroy(outer));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  report("in a graph", a);
  CHECK(counted.calls == 25);
  for (int i = 0; i < 3; i++) CUDA(cudaStreamDestroy(streams[i]));
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
}

// The graph of check_nodes(), with its nodes.
struct Built {
  cudaGraph_t graph, child;
  cudaGraphNode_t fill, first, second, host, in, child_node, inner, record, wait, out, last;
};

// fill -> first -> host -> in -> child -> record -> wait -> second -> out -> last, made in another order
static Built build(int *a, int *b, Counted *counted, std::vector<int> &result, cudaEvent_t event) {
  Built g{};
  CUDA(cudaGraphCreate(&g.graph, 0));
  CUDA(cudaGraphCreate(&g.child, 0));
  Mix inner(b, 5, 5), last(a, 9, 1), first(a, 2, 3), second(a, 4, 6);
  cudaKernelNodeParams k = inner.params();
  CUDA(cudaGraphAddKernelNode(&g.inner, g.child, nullptr, 0, &k));
  k = last.params();
  CUDA(cudaGraphAddKernelNode(&g.last, g.graph, nullptr, 0, &k));
  CUDA(cudaGraphAddMemcpyNode1D(&g.out, g.graph, nullptr, 0, result.data(), a, kBytes, cudaMemcpyDefault));
  CUDA(cudaGraphAddChildGraphNode(&g.child_node, g.graph, nullptr, 0, g.child));
  k = second.params();
  CUDA(cudaGraphAddKernelNode(&g.second, g.graph, nullptr, 0, &k));
  CUDA(cudaGraphAddEventWaitNode(&g.wait, g.graph, nullptr, 0, event));
  CUDA(cudaGraphAddEventRecordNode(&g.record, g.graph, nullptr, 0, event));
  CUDA(cudaGraphAddMemcpyNode1D(&g.in, g.graph, nullptr, 0, b, counted->values.data(), kBytes, cudaMemcpyDefault));
  cudaHostNodeParams h{count, counted};
  CUDA(cudaGraphAddHostNode(&g.host, g.graph, nullptr, 0, &h));
  k = first.params();
  CUDA(cudaGraphAddKernelNode(&g.first, g.graph, nullptr, 0, &k));
  cudaMemsetParams fill{a, kBytes / 4, 5, 2, kN / 4, 3};
  CUDA(cudaGraphAddMemsetNode(&g.fill, g.graph, nullptr, 0, &fill));
  cudaGraphNode_t chain[] = {g.fill, g.first, g.host, g.in, g.child_node,
                             g.record, g.wait, g.second, g.out, g.last};
  for (int i = 0; i + 1 < 10; i++)
    CUDA(cudaGraphAddDependencies(g.graph, &chain[i], &chain[i + 1], nullptr, 1));
  return g;
}

static void check_nodes() {
  int *a = new_ints(), *b = new_ints();
  Counted counted, others;
  others.step = 7;
  std::vector<int> result(kN), other(kN);
  cudaEvent_t event = new_event();
  cudaStream_t s = new_stream(), t = new_stream();
  Built g = build(a, b, &counted, result, event);
  cudaGraphExec_t e = executable(g.graph);
  auto launch = [&](const char *what) {
    CUDA(cudaGraphLaunch(e, s));
    CUDA(cudaGraphLaunch(e, t));
    std::printf("-- %s\n", what);
    report("a", a);
    report("b", b);
    report("result", result);
    report("other", other);
  };
  launch("as it was made");
  CUDA(cudaEventSynchronize(event));

  Mix changed(a, 11, 13);
  cudaKernelNodeParams k = changed.params(kBlocks - 20);
  CUDA(cudaGraphExecKernelNodeSetParams(e, g.second, &k));
  changed.plus = 99;  // was copied
  cudaMemsetParams fill{a, kBytes, 77, 1, kN, 1};
  CUDA(cudaGraphExecMemsetNodeSetParams(e, g.fill, &fill));
  CUDA(cudaGraphExecMemcpyNodeSetParams1D(e, g.out, other.data(), a, kBytes, cudaMemcpyDefault));
  launch("kernel, fill and copy");

  cudaHostNodeParams h{count, &others};
  CUDA(cudaGraphExecHostNodeSetParams(e, g.host, &h));
  CUDA(cudaGraphExecMemcpyNodeSetParams1D(e, g.in, b, others.values.data(), kBytes, cudaMemcpyDefault));
  cudaEvent_t event2 = new_event();
  CUDA(cudaGraphExecEventRecordNodeSetEvent(e, g.record, event2));
  CUDA(cudaGraphExecEventWaitNodeSetEvent(e, g.wait, event2));
  launch("host function and events");
  CUDA(cudaEventSynchronize(event2));
  CHECK(counted.calls == 4 && others.calls == 2);

  Mix in_child(b, 17, 19);
  k = in_child.params();
  CUDA(cudaGraphKernelNodeSetParams(g.inner, &k));
  CUDA(cudaGraphExecChildGraphNodeSetParams(e, g.child_node, g.child));
  launch("child graph");

  for (cudaGraphNode_t n : {g.first, g.fill, g.out}) CUDA(cudaGraphNodeSetEnabled(e, n, 0));
  launch("without three nodes");
  for (cudaGraphNode_t n : {g.first, g.out}) CUDA(cudaGraphNodeSetEnabled(e, n, 1));
  launch("without one node");
  CUDA(cudaGraphNodeSetEnabled(e, g.fill, 1));

  cudaGraphNodeParams any{};
  any.type = cudaGraphNodeTypeKernel;
  Mix once_more(a, 23, 29);
  any.kernel.func = reinterpret_cast<void *>(mix);
  any.kernel.gridDim = 31;
  any.kernel.blockDim = kThreads;
  any.kernel.kernelParams = once_more.args;
  CUDA(cudaGraphExecNodeSetParams(e, g.last, &any));
  launch("by the call for any node");

  // A change of the graph itself concerns later executables only.
  Mix late(a, 31, 37);
  k = late.params();
  CUDA(cudaGraphKernelNodeSetParams(g.first, &k));
  CUDA(cudaGraphDestroyNode(g.last));
  launch("when the graph has changed");
  cudaGraphExec_t fresh = executable(g.graph);
  CUDA(cudaGraphLaunch(fresh, s));
  report("another executable", a);

  CUDA(cudaGraphDestroy(g.graph));
  CUDA(cudaGraphDestroy(g.child));
  launch("without its graph");
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphExecDestroy(fresh));
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
}

// A kernel that runs whole among others that do not.
static void check_cooperative() {
  int *p = new_ints();
  cudaStream_t s = new_stream();
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  mix<<<kBlocks, kThreads, 0, s>>>(p, 3, 4);
  void *arguments[] = {&p};
  CUDA(cudaLaunchCooperativeKernel(whole_grid, dim3(2), dim3(kThreads), arguments, 0, s));
  mix<<<kBlocks, kThreads, 0, s>>>(p, 5, 6);
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e = executable(g);
  for (int i = 0; i < 3; i++) CUDA(cudaGraphLaunch(e, s));
  report("with a cooperative launch", p);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
}

// Two threads launch graphs into the same stream.
static void check_threads() {
  int *p = new_ints();
  cudaStream_t s = new_stream();
  cudaGraphExec_t graphs[2];
  for (int id = 0; id < 2; id++) {
    cudaGraph_t g;
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    take<<<kBlocks, kThreads, 0, s>>>(p, id);
    check<<<kBlocks, kThreads, 0, s>>>(p, id, p + 1);
    CUDA(cudaStreamEndCapture(s, &g));
    graphs[id] = executable(g);
    CUDA(cudaGraphDestroy(g));
  }
  auto launch = [&](int id) {
    for (int i = 0; i < 40; i++) CUDA(cudaGraphLaunch(graphs[id], s));
  };
  std::thread other(launch, 1);
  launch(0);
  other.join();
  CUDA(cudaStreamSynchronize(s));
  int errors = -1;
  CUDA(cudaMemcpy(&errors, p + 1, sizeof errors, cudaMemcpyDefault));
  CHECK(errors == 0);
  for (cudaGraphExec_t e : graphs) CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaFree(p));
}

// What runs whole: memory of the graph; and what follows in other streams.
static void check_whole() {
  int *p, *q = new_ints();
  cudaStream_t s = new_stream(), t = new_stream();
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&p, kBytes, s));
  CUDA(cudaMemsetAsync(p, 0, kBytes, s));
  mix<<<kBlocks, kThreads, 0, s>>>(p, 1, 4);
  add<<<kBlocks, kThreads, 0, s>>>(q, p);
  CUDA(cudaFreeAsync(p, s));
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e = executable(g);
  for (int i = 0; i < 4; i++) CUDA(cudaGraphLaunch(e, i % 2 == 0 ? s : t));
  report("with memory of its own", q);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(q));
}

// A graph keeps an object for its host function, and so does its executable, also while it gets another
// one or ends.
static void check_user_object() {
  int *a = new_ints(), *b = new_ints();
  static Counted counted;
  cudaUserObject_t object;
  cudaGraph_t g = record_branches(a, b, &counted, 1);
  CUDA(cudaUserObjectCreate(
      &object, &counted, [](void *data) { static_cast<Counted *>(data)->released = true; }, 1,
      cudaUserObjectNoDestructorSync));
  CUDA(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t e = executable(g);
  CUDA(cudaGraphDestroy(g));
  cudaStream_t s = new_stream();
  for (int i = 0; i < 3; i++) CUDA(cudaGraphLaunch(e, s));
  Counted others;
  g = record_branches(a, b, &others, 1);
  cudaGraphExecUpdateResultInfo info{};
  CUDA(cudaGraphExecUpdate(e, g, &info));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaGraphLaunch(e, new_stream()));
  CUDA(cudaGraphExecDestroy(e));
  report("user object", a);
  CHECK(counted.calls == 3 && others.calls == 1);
  g = record_branches(a, b, &counted, 1);
  e = executable(g);  // never launched
  CHECK(counted.released);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
}

int main() {
  check_captured();
  check_nodes();
  check_cooperative();
  check_threads();
  check_whole();
  check_user_object();
  CUDA(cudaDeviceSynchronize());
  return passed();
}
