// SPDX-License-Identifier: Apache-2.0
//
// Copies, updates and attributes of graphs, as the CUDA driver API documents them.
#include "graphs.h"

static CUgraph new_graph() {
  CUgraph g;
  OK(cuGraphCreate(&g, 0));
  return g;
}
static CUgraphNode add_kernel(CUgraph g, Apply what, CUgraphNode after = nullptr) {
  CUgraphNode n;
  what.args[0] = &what.p, what.args[1] = &what.n, what.args[2] = &what.times, what.args[3] = &what.plus;
  CUDA_KERNEL_NODE_PARAMS k = what.driver();
  OK(cuGraphAddKernelNode(&n, g, &after, after ? 1 : 0, &k));
  return n;
}
static void set_kernel(CUgraphNode n, int *p, int times, int plus) {
  Apply what(p, times, plus);
  CUDA_KERNEL_NODE_PARAMS k = what.driver();
  OK(cuGraphKernelNodeSetParams(n, &k));
}

// A clone has child graphs of its own.
static void check_clones_of_children() {
  int *p = new_ints(1);
  CUgraph leaf = new_graph(), top = new_graph(), clone, inner, cloned_inner;
  CUgraphNode child, cloned_child, n, found;
  size_t one = 1;
  add_kernel(leaf, {p, 2, 1});
  OK(cuGraphAddChildGraphNode(&child, top, nullptr, 0, leaf));
  OK(cuGraphClone(&clone, top));
  OK(cuGraphNodeFindInClone(&cloned_child, child, clone));
  OK(cuGraphChildGraphNodeGetGraph(child, &inner));
  OK(cuGraphChildGraphNodeGetGraph(cloned_child, &cloned_inner));
  CHECK(inner != cloned_inner);
  OK(cuGraphGetNodes(cloned_inner, &n, &one));
  set_kernel(n, p, 5, 7);
  cudaGraphExec_t e = executable(top), f = executable(clone);
  launch(e, nullptr);
  CHECK(first_of(p) == 3);
  launch(f, nullptr);
  CHECK(first_of(p) == 22);
  // The child graph can be cloned by itself, and its nodes be found.
  CUgraph third;
  OK(cuGraphGetNodes(inner, &n, &one));
  OK(cuGraphClone(&third, inner));
  OK(cuGraphNodeFindInClone(&found, n, third));
  CUgraphNodeType type;
  OK(cuGraphDestroy(top));
  CHECK(cuGraphNodeGetType(n, &type) == CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphNodeGetType(found, &type));
  for (CUgraph g : {leaf, clone, third}) OK(cuGraphDestroy(g));
  for (cudaGraphExec_t x : {e, f}) CUDA(cudaGraphExecDestroy(x));
  CUDA(cudaFree(p));
}

// A child graph in an executable graph is updated with another one, or node by node.
static void check_updates_of_children() {
  int *p = new_ints(1);
  CUgraph leaf = new_graph(), top = new_graph(), longer = new_graph(), inner;
  CUgraphNode child, n;
  size_t one = 1;
  CUgraphNode kernel = add_kernel(leaf, {p, 2, 1});
  add_kernel(longer, {p, 1, 1}, add_kernel(longer, {p, 1, 1}));
  OK(cuGraphAddChildGraphNode(&child, top, nullptr, 0, leaf));
  cudaGraphExec_t e = executable(top);
  set_kernel(kernel, p, 3, 4);
  CUDA(cudaGraphExecChildGraphNodeSetParams(e, child, leaf));
  launch(e, nullptr);
  CHECK(first_of(p) == 7);
  CHECK(cuGraphExecChildGraphNodeSetParams(e, child, longer) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphExecChildGraphNodeSetParams(e, kernel, leaf) == CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphChildGraphNodeGetGraph(child, &inner));
  OK(cuGraphGetNodes(inner, &n, &one));
  Apply nine(p, 0, 9);
  CUDA_KERNEL_NODE_PARAMS k = nine.driver();
  OK(cuGraphExecKernelNodeSetParams(e, n, &k));
  launch(e, nullptr);
  CHECK(first_of(p) == 9);
  CUDA(cudaGraphExecDestroy(e));
  for (CUgraph g : {leaf, top, longer}) OK(cuGraphDestroy(g));
  CUDA(cudaFree(p));
}

// Handles of the first graph still mean the nodes, and disabled nodes stay so.
static void check_updates() {
  int *p = new_ints(1);
  CUgraph g = new_graph(), same = new_graph(), other = new_graph(), turned = new_graph();
  CUgraphNode a = add_kernel(g, {p, 2, 0}), b = add_kernel(g, {p, 1, 1}, a);
  CUgraphNode c = add_kernel(same, {p, 3, 0}), d = add_kernel(same, {p, 1, 5}, c);
  cudaGraphExec_t e = executable(g);
  OK(cuGraphNodeSetEnabled(e, b, 0));
  CUgraphExecUpdateResultInfo info{};
  OK(cuGraphExecUpdate(e, same, &info));
  launch(e, nullptr);
  CHECK(first_of(p) == 3);
  OK(cuGraphNodeSetEnabled(e, d, 1));
  launch(e, nullptr);
  CHECK(first_of(p) == 14);
  Apply four(p, 4, 0);
  CUDA_KERNEL_NODE_PARAMS k = four.driver();
  OK(cuGraphExecKernelNodeSetParams(e, a, &k));
  launch(e, nullptr);
  CHECK(first_of(p) == 61);

  CUgraphNode empty, x, y = add_kernel(turned, {p, 1, 1});
  OK(cuGraphAddEmptyNode(&empty, other, nullptr, 0));
  CHECK(cuGraphExecUpdate(e, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == nullptr);
  OK(cuGraphAddEmptyNode(&x, other, &empty, 1));
  CHECK(cuGraphExecUpdate(e, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED && info.errorNode == empty);
  x = add_kernel(turned, {p, 1, 1});
  OK(cuGraphAddDependencies(turned, &x, &y, nullptr, 1));
  CHECK(cuGraphExecUpdate(e, turned, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == y);
  launch(e, nullptr);
  CHECK(first_of(p) == 249);
  CUDA(cudaGraphExecDestroy(e));
  for (CUgraph graph : {g, same, other, turned}) OK(cuGraphDestroy(graph));
  CUDA(cudaFree(p));
}

static void check_attributes() {
  int *p = new_ints(1);
  CUgraph g = new_graph();
  CUgraphNode a = add_kernel(g, {p, 2, 0}), b = add_kernel(g, {p, 1, 1}, a), empty;
  OK(cuGraphAddEmptyNode(&empty, g, nullptr, 0));
  CUkernelNodeAttrValue v{};
  OK(cuGraphKernelNodeGetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v));
  CHECK(v.cooperative == 0);
  OK(cuGraphKernelNodeGetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &v));
  CHECK(v.clusterDim.x == 0);
  v.cooperative = 1;
  OK(cuGraphKernelNodeSetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v));
  v.clusterDim.x = v.clusterDim.y = v.clusterDim.z = 1;
  OK(cuGraphKernelNodeSetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &v));
  v.clusterDim.x = 2;  // the grid has one block
  CHECK(cuGraphKernelNodeSetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &v) ==
        CUDA_ERROR_INVALID_VALUE);
  set_kernel(a, p, 3, 3);  // leaves the attributes as they are
  OK(cuGraphKernelNodeCopyAttributes(b, a));
  OK(cuGraphKernelNodeGetAttribute(b, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v));
  CHECK(v.cooperative == 1);
  OK(cuGraphKernelNodeGetAttribute(b, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &v));
  CHECK(v.clusterDim.x == 1);
  CHECK(cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, &v) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphKernelNodeGetAttribute(empty, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v) ==
        CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS k{};
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  OK(cuGraphKernelNodeGetParams(a, &k));
  CHECK(k.ctx == context);
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr);
  CHECK(first_of(p) == 7);
  CHECK(cuGraphNodeSetEnabled(e, empty, 0) == CUDA_ERROR_INVALID_VALUE);
  CUDA(cudaGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  CUDA(cudaFree(p));
}

// Each launch waits for the one before, whichever stream that was in.
static void check_order_of_launches() {
  int *p = new_ints(0);
  unsigned expected = 0;
  cudaStream_t streams[] = {new_stream(), new_stream(), new_stream()};
  cudaGraph_t g = record_steps(streams[0], p, 5, 1);
  cudaGraphExec_t e = executable(g);
  for (int r = 0; r < 200; r++) {
    CUDA(cudaGraphLaunch(e, streams[r % 3]));
    for (unsigned i = 0; i < 5; i++) expected = expected * 3 + 1 + i;
  }
  CUDA(cudaDeviceSynchronize());
  CHECK(static_cast<unsigned>(first_of(p)) == expected);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  for (cudaStream_t s : streams) CUDA(cudaStreamDestroy(s));
  CUDA(cudaFree(p));
}

int main() {
  check_clones_of_children();
  check_updates_of_children();
  check_updates();
  check_attributes();
  check_order_of_launches();
  return passed();
}
