// SPDX-License-Identifier: Apache-2.0
//
// Queries about graphs, and the calls that change the work of a node.
#include <algorithm>

#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {

CUresult node_of(CUgraphNode handle, CUgraphNodeType type, Node *&out) {
  out = graph_registry().nodes.get(handle);
  REQUIRE(out != nullptr && out->type == type, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult exec_node_of(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type, Node *&out) {
  CHECK_CU(node_in(exec, handle, out));
  REQUIRE(out->type == type, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda::driver;

namespace {

CUresult set_copy(Node &n, const CUDA_MEMCPY3D *p) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  Box b;
  CHECK_CU(box_of(*p, b));
  n.box = b;
  return CUDA_SUCCESS;
}

CUresult set_fill(Node &n, const CUDA_MEMSET_NODE_PARAMS *p) {
  Fill f;
  CHECK_CU(fill_of(p, f));
  n.fill = f;
  return CUDA_SUCCESS;
}

CUresult set_host(Node &n, const CUDA_HOST_NODE_PARAMS *p) {
  REQUIRE(p != nullptr && p->fn != nullptr, CUDA_ERROR_INVALID_VALUE);
  n.host = p->fn;
  n.host_data = p->userData;
  return CUDA_SUCCESS;
}

template <class Params>
using Setter = CUresult (*)(Node &, const Params *);

template <class Params>
CUresult set_params(CUgraphNode node, CUgraphNodeType type, Setter<Params> set, const Params *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, type, n));
  return set(*n, p);
}

template <class Params>
CUresult set_exec_params(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
                         Setter<Params> set, const Params *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, type, n));
  return set(*n, p);
}

}  // namespace

SOFTCUDA_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p) {
  return set_params(node, CU_GRAPH_NODE_TYPE_MEMCPY, &set_copy, p);
}
SOFTCUDA_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_MEMCPY3D *p, CUcontext) {
  return set_exec_params(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &set_copy, p);
}
SOFTCUDA_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node,
                                                 const CUDA_MEMSET_NODE_PARAMS *p) {
  return set_params(node, CU_GRAPH_NODE_TYPE_MEMSET, &set_fill, p);
}
SOFTCUDA_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_MEMSET_NODE_PARAMS *p, CUcontext) {
  return set_exec_params(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &set_fill, p);
}
SOFTCUDA_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p) {
  return set_params(node, CU_GRAPH_NODE_TYPE_HOST, &set_host, p);
}
SOFTCUDA_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_HOST_NODE_PARAMS *p) {
  return set_exec_params(exec, node, CU_GRAPH_NODE_TYPE_HOST, &set_host, p);
}

SOFTCUDA_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out,
                                                    CUgraphEdgeData *, size_t *count) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  return list_nodes(n->after, out, count);
}

SOFTCUDA_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out,
                                                      CUgraphEdgeData *, size_t *count) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> nodes;
  for (const std::unique_ptr<Node> &m : n->graph->nodes)
    if (std::ranges::find(m->after, n) != m->after.end()) nodes.push_back(m.get());
  return list_nodes(nodes, out, count);
}

SOFTCUDA_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                         CUgraphEdgeData *, size_t *count) {
  CALL_INITIALISED();
  Graph *g = graph_registry().graphs.get(graph);
  REQUIRE(g != nullptr && count != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> a, b;
  for (const std::unique_ptr<Node> &m : g->nodes)
    for (Node *before : m->after) {
      a.push_back(before);
      b.push_back(m.get());
    }
  size_t n = *count;
  CHECK_CU(list_nodes(a, from, count));
  return list_nodes(b, to, to == nullptr ? count : &n);
}

SOFTCUDA_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  REQUIRE(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
