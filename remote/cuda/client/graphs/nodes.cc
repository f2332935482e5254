// SPDX-License-Identifier: Apache-2.0
//
// The calls that add a node to a graph.
#include "remote/cuda/client/graphs/nodes.h"

#include "remote/cuda/client/graphs/graph_memory.h"
#include "remote/cuda/client/graphs/works.h"

namespace ckpt::remote::cuda {

CUresult edges_from(const Live &all, const Graph &g, const CUgraphNode *from,
                    const CUgraphEdgeData *data, size_t n, std::vector<Edge> &out) {
  if (!from && n > 0) return CUDA_ERROR_INVALID_VALUE;
  std::unordered_set<const Node *> named;
  for (size_t i = 0; i < n; i++) {
    Node *node = all.node(from[i]);
    if (!node || node->graph != &g || !named.insert(node).second) return CUDA_ERROR_INVALID_VALUE;
    out.push_back({node, data ? data[i] : CUgraphEdgeData{}});
  }
  return CUDA_SUCCESS;
}

CUresult add_node(const NewNode &n, CUgraphNodeType type, WorkPointer work,
                  std::shared_ptr<Graph> child) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(n.graph);
    if (!n.out || !g) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Edge> after;
    if (CUresult e = edges_from(all, *g, n.after, n.edges, n.count, after); e != CUDA_SUCCESS)
      return e;
    Node *node = g->add(type, std::move(work), std::move(child));
    for (const Edge &e : after) Graph::connect(e.from, node, e.data);
    *n.out = all.publish(node);
    return CUDA_SUCCESS;
  });
}

namespace {

template <class Parameters>
CUresult add(const NewNode &n, CUgraphNodeType type, const Parameters *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  NewWork work;
  CUresult e = make_work(*p, work);
  return e == CUDA_SUCCESS ? add_node(n, type, std::move(work)) : e;
}

CUresult add_child(const NewNode &n, CUgraph child) {
  std::shared_ptr<Graph> copy;
  CUresult e = with_graphs([&](Live &all) {
    const Graph *g = all.graph(child);
    if (g) copy = g->copy();
    return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
  return e == CUDA_SUCCESS ? add_node(n, CU_GRAPH_NODE_TYPE_GRAPH, nullptr, std::move(copy)) : e;
}

template <class Parameters>
CUresult add_allocation(const NewNode &n, Parameters *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!p || p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  CUdevice device = p->poolProps.location.id;
  if (p->accessDescCount > 0 || ledger().device_of(current_context()) != device)
    return refuse("memory of a graph for another device than the current one",
                  "a device cannot reach another one's memory there");
  std::shared_ptr<GraphMemory> m;
  if (CUresult e = allocate_for_graph(current_context(), p->bytesize, m); e != CUDA_SUCCESS)
    return e;
  CUdeviceptr address = address_of(*m);
  CUresult e = add_node(n, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::make_shared<Work>(std::move(m)));
  if (e == CUDA_SUCCESS) p->dptr = address;
  return e;
}

CUresult add_free(const NewNode &n, CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_graph_memory(p)) return CUDA_ERROR_INVALID_VALUE;
  return add_node(n, CU_GRAPH_NODE_TYPE_MEM_FREE, std::make_shared<Work>(FreeWork{p}));
}

CUresult add_any(const NewNode &n, CUgraphNodeParams *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY: return add_node(n, p->type, nullptr);
    case CU_GRAPH_NODE_TYPE_GRAPH: return add_child(n, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return add_allocation(n, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return add_free(n, p->free.dptr);
    default: return add(n, p->type, p);
  }
}

}  // namespace

CUresult entry_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                   size_t n) {
  return add_node({out, g, after, n}, CU_GRAPH_NODE_TYPE_EMPTY, nullptr);
}
CUresult entry_cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                    const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_KERNEL, p);
}
CUresult entry_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                       size_t n, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_KERNEL, p);
}
// Copies and fills need no context here: addresses are enough.
CUresult entry_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                    const CUDA_MEMCPY3D_v2 *p, CUcontext) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_MEMCPY, p);
}
CUresult entry_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                    const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_MEMSET, p);
}
CUresult entry_cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                  const CUDA_HOST_NODE_PARAMS_v1 *p) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_HOST, p);
}
CUresult entry_cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                         size_t n, CUevent event) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &event);
}
CUresult entry_cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                       size_t n, CUevent event) {
  return add({out, g, after, n}, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &event);
}
CUresult entry_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                        size_t n, CUgraph child) {
  return add_child({out, g, after, n}, child);
}
CUresult entry_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                      size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p) {
  return add_allocation({out, g, after, n}, p);
}
CUresult entry_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                     size_t n, CUdeviceptr p) {
  return add_free({out, g, after, n}, p);
}
CUresult entry_cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *p) {
  return add_any({out, g, after, n}, p);
}
CUresult entry_cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                 const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p) {
  return add_any({out, g, after, n, edges}, p);
}

}  // namespace ckpt::remote::cuda
