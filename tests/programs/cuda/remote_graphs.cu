// SPDX-License-Identifier: Apache-2.0
//
// Graphs by both APIs: built, changed, copied, and launched often. The program checks its results,
// and prints errors and what it has asked of graphs.

#include "graphs.h"

// The nodes are made in the reverse of the order in which they must run.
static void check_order_of_built_nodes() {
  int *p = new_ints(1);
  CUgraph g;
  CUgraphNode nodes[4];
  OK(cuGraphCreate(&g, 0));
  for (int i = 0; i < 4; i++) {
    Apply triple(p, 3, i);
    CUDA_KERNEL_NODE_PARAMS k = triple.driver();
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
  Apply times_four(b, 4, 0);
  k = times_four.runtime();
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
  Apply double_and_one(p, 2, 1);
  cudaKernelNodeParams k = double_and_one.runtime();
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
  Apply nine(q, 0, 9);
  CUDA_KERNEL_NODE_PARAMS k = nine.driver();
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
  Apply plus_four(p, 1, 4);
  cudaKernelNodeParams k = plus_four.runtime();
  CUDA(cudaGraphAddKernelNode(&kernel, first, nullptr, 0, &k));
  CUDA(cudaGraphAddEventRecordNode(&record, first, &kernel, 1, done));
  CUDA(cudaGraphAddEventWaitNode(&wait, second, nullptr, 0, done));
  Apply times_ten(p, 10, 0);
  k = times_ten.runtime();
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

int main() {
  check_order_of_built_nodes();
  check_a_diamond();
  check_memory();
  check_children_and_clones();
  check_updates();
  check_many_launches();
  check_events();
  check_user_objects();
  return passed();
}
