// SPDX-License-Identifier: Apache-2.0
//
// Reading and replacing the work of a node, of a graph or of an executable one.
#include <algorithm>

#include "remote/cuda/client/code/launches.h"
#include "remote/cuda/client/graphs/executable_graph.h"
#include "remote/cuda/client/graphs/live.h"
#include "remote/cuda/client/graphs/works.h"

namespace ckpt::remote::cuda {
namespace {

// New parameters leave the attributes of a kernel node as they are.
CUresult replace(Live &all, Node *n, CUgraphNodeType type, NewWork work) {
  if (!n || n->type != type) return CUDA_ERROR_INVALID_VALUE;
  if (auto *k = std::get_if<KernelWork>(work.get()))
    k->attributes = std::get<KernelWork>(*n->work).attributes;
  all.drop(std::exchange(n->work, std::move(work)));
  return CUDA_SUCCESS;
}

template <class Parameters>
CUresult set(CUgraphNode node, CUgraphNodeType type, const Parameters *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  NewWork work;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = make_work(*p, work); e != CUDA_SUCCESS) return e;
  return with_graphs(
      [&](Live &all) { return replace(all, all.node(node), type, std::move(work)); });
}

// f(node of the executable graph)
template <class F>
CUresult change(CUgraphExec exec, CUgraphNode node, F f) {
  return with_graphs([&](Live &all) {
    ExecutableGraph *e = all.exec(exec);
    const Node *original = all.node(node);
    Node *n = e && original ? e->find(*original) : nullptr;
    if (!n) return CUDA_ERROR_INVALID_VALUE;
    e->changed();
    return f(all, n);
  });
}

template <class Parameters>
CUresult set(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, const Parameters *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  NewWork work;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = make_work(*p, work); e != CUDA_SUCCESS) return e;
  return change(exec, node,
                [&](Live &all, Node *n) { return replace(all, n, type, std::move(work)); });
}

// f(work of the node)
template <class F>
CUresult look(CUgraphNode node, CUgraphNodeType type, F f) {
  return with_graphs([&](Live &all) {
    const Node *n = all.node(node);
    return n && n->type == type && f(*n->work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Parameters>
CUresult get(CUgraphNode node, CUgraphNodeType type, Parameters *p) {
  return look(node, type, [&](const Work &w) { return p && read_work(w, *p); });
}

}  // namespace

CUresult entry_cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams *p) {
  return set(n, p ? p->type : CU_GRAPH_NODE_TYPE_EMPTY, p);
}
CUresult entry_cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p) {
  if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return entry_cuGraphExecChildGraphNodeSetParams(e, n, p->graph.graph);
  return set(e, n, p ? p->type : CU_GRAPH_NODE_TYPE_EMPTY, p);
}

CUresult entry_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  CUgraph child) {
  return change(exec, node, [&](Live &all, Node *n) {
    const Graph *g = all.graph(child);
    if (!g || !n->child) return CUDA_ERROR_INVALID_VALUE;
    std::unordered_map<u64, Node *> ignored;
    bool same = update_nodes(*n->child, *g, ignored).result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return same ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// The entries of one type of node: `name` is in their names, `form` behind them.
#define GETS(name, form, node_type, Parameters)                                           \
  CUresult entry_cuGraph##name##NodeGetParams##form(CUgraphNode n, Parameters *p) {       \
    return get(n, node_type, p);                                                          \
  }                                                                                       \
  CUresult entry_cuGraph##name##NodeSetParams##form(CUgraphNode n, const Parameters *p) { \
    return set(n, node_type, p);                                                          \
  }

GETS(Kernel, , CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v1)
GETS(Kernel, _v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v2)
GETS(Memcpy, , CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D_v2)
GETS(Memset, , CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS_v1)
GETS(Host, , CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS_v1)

#undef GETS

CUresult entry_cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n,
                                              const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  return set(e, n, CU_GRAPH_NODE_TYPE_KERNEL, p);
}
CUresult entry_cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                                 const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  return set(e, n, CU_GRAPH_NODE_TYPE_KERNEL, p);
}
CUresult entry_cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n,
                                              const CUDA_MEMCPY3D_v2 *p, CUcontext) {
  return set(e, n, CU_GRAPH_NODE_TYPE_MEMCPY, p);
}
CUresult entry_cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n,
                                              const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext) {
  return set(e, n, CU_GRAPH_NODE_TYPE_MEMSET, p);
}
CUresult entry_cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n,
                                            const CUDA_HOST_NODE_PARAMS_v1 *p) {
  return set(e, n, CU_GRAPH_NODE_TYPE_HOST, p);
}

#define EVENTS(name, node_type)                                                                 \
  CUresult entry_cuGraph##name##NodeGetEvent(CUgraphNode n, CUevent *out) {                     \
    return get(n, node_type, out);                                                              \
  }                                                                                             \
  CUresult entry_cuGraph##name##NodeSetEvent(CUgraphNode n, CUevent event) {                    \
    return set(n, node_type, &event);                                                           \
  }                                                                                             \
  CUresult entry_cuGraphExec##name##NodeSetEvent(CUgraphExec e, CUgraphNode n, CUevent event) { \
    return set(e, n, node_type, &event);                                                        \
  }

EVENTS(EventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
EVENTS(EventWait, CU_GRAPH_NODE_TYPE_WAIT_EVENT)

#undef EVENTS

CUresult entry_cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *p) {
  return look(n, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [&](const Work &w) {
    if (p) describe(*std::get<std::shared_ptr<GraphMemory>>(w), *p);
    return p != nullptr;
  });
}
CUresult entry_cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *p) {
  return look(n, CU_GRAPH_NODE_TYPE_MEM_FREE, [&](const Work &w) {
    if (p) *p = std::get<FreeWork>(w).address;
    return p != nullptr;
  });
}

namespace {

// The work of the node with other attributes.
CUresult set_attributes(Live &all, Node *n, std::vector<CUlaunchAttribute> attributes) {
  const auto &old = std::get<KernelWork>(*n->work);
  auto work = std::make_shared<Work>(old);
  auto &k = std::get<KernelWork>(*work);
  k.attributes = std::move(attributes);
  // They are to lie in the new copy of the parameters.
  for (void *&p : k.places)
    p = k.parameters.data() + (static_cast<std::byte *>(p) - old.parameters.data());
  all.drop(std::exchange(n->work, std::move(work)));
  return CUDA_SUCCESS;
}

Node *kernel_node(const Live &all, CUgraphNode node) {
  Node *n = all.node(node);
  return n && n->type == CU_GRAPH_NODE_TYPE_KERNEL ? n : nullptr;
}

}  // namespace

CUresult entry_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                             const CUkernelNodeAttrValue_v1 *value) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchAttribute a{};
  a.id = id;
  a.value = *value;
  if (CUresult e = check_attribute(a); e != CUDA_SUCCESS) return e;
  return with_graphs([&](Live &all) {
    Node *n = kernel_node(all, node);
    if (!n) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUlaunchAttribute> attributes = std::get<KernelWork>(*n->work).attributes;
    std::erase_if(attributes, [&](const CUlaunchAttribute &b) { return b.id == id; });
    attributes.push_back(a);
    return set_attributes(all, n, std::move(attributes));
  });
}

CUresult entry_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                             CUkernelNodeAttrValue_v1 *value) {
  return with_graphs([&](Live &all) {
    const Node *n = kernel_node(all, node);
    if (!n || !value) return CUDA_ERROR_INVALID_VALUE;
    *value = {};
    for (const CUlaunchAttribute &a : std::get<KernelWork>(*n->work).attributes)
      if (a.id == id) *value = a.value;
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return with_graphs([&](Live &all) {
    Node *a = kernel_node(all, to);
    const Node *b = kernel_node(all, from);
    if (!a || !b) return CUDA_ERROR_INVALID_VALUE;
    return set_attributes(all, a, std::get<KernelWork>(*b->work).attributes);
  });
}

}  // namespace ckpt::remote::cuda
