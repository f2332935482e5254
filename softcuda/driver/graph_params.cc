// SPDX-License-Identifier: Apache-2.0
//
// What a graph tells of itself, and how its nodes' work is changed.
#include <algorithm>

#include "softcuda/driver/graph.h"

using namespace ckpt::softcuda::driver;

namespace {

CUresult node_of(CUgraphNode handle, CUgraphNodeType type, Node *&out) {
  out = graph_registry().nodes.get(handle);
  REQUIRE(out != nullptr && out->type == type, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult exec_node_of(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type, Node *&out) {
  ExecutableGraph *e = graph_registry().execs.get(exec);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto it = e->clones.find(reinterpret_cast<Node *>(handle));
  REQUIRE(it != e->clones.end() && it->second->type == type, CUDA_ERROR_INVALID_VALUE);
  out = it->second;
  return CUDA_SUCCESS;
}

CUresult set_copy(Node &n, const CUDA_MEMCPY3D *p) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  Box b;
  CHECK_CU(box_of(*p, b));
  n.box = b;
  return CUDA_SUCCESS;
}

CUresult set_fill(Node &n, const CUDA_MEMSET_NODE_PARAMS *p) {
  REQUIRE(p != nullptr && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4),
          CUDA_ERROR_INVALID_VALUE);
  char *dst =
      process().memory->host(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize);
  REQUIRE(dst != nullptr, CUDA_ERROR_INVALID_VALUE);
  n.fill = {dst, p->pitch, p->width, p->height, p->elementSize, p->value};
  return CUDA_SUCCESS;
}

CUresult set_host(Node &n, const CUDA_HOST_NODE_PARAMS *p) {
  REQUIRE(p != nullptr && p->fn != nullptr, CUDA_ERROR_INVALID_VALUE);
  n.host = p->fn;
  n.host_data = p->userData;
  return CUDA_SUCCESS;
}

CUresult list(const std::vector<Node *> &nodes, CUgraphNode *out, size_t *n) {
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (out != nullptr)
    for (size_t i = 0; i < *n; ++i)
      out[i] = i < nodes.size() ? reinterpret_cast<CUgraphNode>(nodes[i]) : nullptr;
  *n = out == nullptr ? nodes.size() : std::min(*n, nodes.size());
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_MEMCPY, n));
  return set_copy(*n, p);
}
SOFTCUDA_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_MEMCPY3D *p, CUcontext) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, n));
  return set_copy(*n, p);
}
SOFTCUDA_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node,
                                                 const CUDA_MEMSET_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_MEMSET, n));
  return set_fill(*n, p);
}
SOFTCUDA_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_MEMSET_NODE_PARAMS *p, CUcontext) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, n));
  return set_fill(*n, p);
}
SOFTCUDA_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_HOST, n));
  return set_host(*n, p);
}
SOFTCUDA_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_HOST_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, CU_GRAPH_NODE_TYPE_HOST, n));
  return set_host(*n, p);
}

SOFTCUDA_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out,
                                                    CUgraphEdgeData *, size_t *count) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  return list(n->after, out, count);
}

SOFTCUDA_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out,
                                                      CUgraphEdgeData *, size_t *count) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> nodes;
  for (const std::unique_ptr<Node> &m : n->graph->nodes)
    if (std::ranges::find(m->after, n) != m->after.end()) nodes.push_back(m.get());
  return list(nodes, out, count);
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
  CHECK_CU(list(a, from, count));
  return list(b, to, to == nullptr ? count : &n);
}

SOFTCUDA_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  REQUIRE(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
