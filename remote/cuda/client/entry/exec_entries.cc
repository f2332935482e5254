// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs.
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/graphs/executable_graph.h"
#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {
namespace {

CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags,
                     CUgraphInstantiateResult &result) {
  constexpr cuuint64_t kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  result = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    return refuse("a graph for launches by kernels",
                  "a graph is executed node by node, so nothing can decide on the device");
  return with_graphs([&](Live &all) {
    const Graph *g = all.graph(graph);
    if (!out || !g || g->capturing || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
    result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (!can_be_ordered(*g)) return CUDA_ERROR_INVALID_VALUE;
    *out = all.publish(std::make_shared<ExecutableGraph>(*g, flags));
    result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
  });
}

CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo &info) {
  info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  return with_graphs([&](Live &all) {
    ExecutableGraph *e = all.exec(exec);
    const Graph *g = all.graph(graph);
    if (!e || !g) return CUDA_ERROR_INVALID_VALUE;
    info = update_nodes(*e->graph, *g, e->updated);
    e->changed();
    bool same = info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

}  // namespace

CUresult entry_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  CUgraphInstantiateResult ignored;
  return instantiate(out, g, flags, ignored);
}

CUresult entry_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  p->hErrNode_out = nullptr;
  return instantiate(out, g, p->flags, p->result_out);
}

// The forms of before CUDA 11.4.
CUresult entry_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log,
                                     size_t bytes) {
  if (error) *error = nullptr;
  if (log && bytes > 0) *log = 0;
  return entry_cuGraphInstantiateWithFlags(out, g, 0);
}
CUresult entry_cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log,
                                  size_t bytes) {
  return entry_cuGraphInstantiate_v2(out, g, error, log, bytes);
}

CUresult entry_cuGraphExecDestroy(CUgraphExec exec) {
  return with_graphs([&](Live &all) {
    if (!all.exec(exec)) return CUDA_ERROR_INVALID_VALUE;
    all.end(exec);
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags) {
  return with_graphs([&](Live &all) {
    const ExecutableGraph *e = all.exec(exec);
    if (!e || !flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph g,
                                    CUgraphExecUpdateResultInfo *info) {
  return info ? update(exec, g, *info) : CUDA_ERROR_INVALID_VALUE;
}
CUresult entry_cuGraphExecUpdate(CUgraphExec exec, CUgraph g, CUgraphNode *error,
                                 CUgraphExecUpdateResult *result) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  CUresult e = update(exec, g, info);
  *result = info.result;
  if (error) *error = info.errorNode;
  return e;
}

// Others do work that cannot be left out (CUDA driver API, cuGraphNodeSetEnabled).
CUresult entry_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return with_graphs([&](Live &all) {
    ExecutableGraph *e = all.exec(exec);
    const Node *original = all.node(node);
    Node *n = e && original ? e->find(*original) : nullptr;
    bool possible =
        n && (n->type == CU_GRAPH_NODE_TYPE_KERNEL || n->type == CU_GRAPH_NODE_TYPE_MEMSET ||
              n->type == CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!possible) return CUDA_ERROR_INVALID_VALUE;
    n->enabled = enabled != 0;
    e->changed();
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
  return with_graphs([&](Live &all) {
    const ExecutableGraph *e = all.exec(exec);
    const Node *original = all.node(node);
    const Node *n = e && original ? e->find(*original) : nullptr;
    if (!n || !enabled) return CUDA_ERROR_INVALID_VALUE;
    *enabled = n->enabled;
    return CUDA_SUCCESS;
  });
}

// Nothing has to be sent before the launch.
CUresult entry_cuGraphUpload(CUgraphExec exec, CUstream stream) {
  if (CUresult e = check_stream(number_of(stream)); e != CUDA_SUCCESS) return e;
  return with_graphs(
      [&](Live &all) { return all.exec(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult entry_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (CUresult e = check_stream(number_of(stream)); e != CUDA_SUCCESS) return e;
  std::shared_ptr<ExecutableGraph> graph;
  std::shared_ptr<const Plan> plan;
  CUresult e = with_graphs([&](Live &all) {
    graph = all.shared(exec);
    if (graph) plan = graph->plan();
    return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
  if (e != CUDA_SUCCESS) return e;
  if (is_capturing(stream)) return capture_child(stream, *graph->graph);
  return launch_plan(*graph, *plan, stream);
}

}  // namespace ckpt::remote::cuda
