// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs: how they are made, changed, launched and destroyed (sliced_graph.h).
#include "libckpt-cuda/calls/private_events.h"
#include "libckpt-cuda/guest/launches.h"
#include "libckpt-cuda/guest/node_params.h"
#include "libckpt-cuda/guest/sliced_graph.h"

namespace ckpt::cuda {
namespace {

using guest::AnyNodeParams;
using guest::GraphMirror;
using guest::NodeParams;

// `real` calls the driver for the executable graph, `same` does the same for a node of a graph.
template <class Real, class Same>
CUresult change_node(CUgraphExec exec, CUgraphNode node, Real real, Same same) {
  CUresult e = with_memory(real);
  if (e == CUDA_SUCCESS)
    guest::follow(exec, [&](GraphMirror &mirror) { return mirror.change(node, same); });
  return e;
}

CUresult note_made(CUresult e, const CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  if (e == CUDA_SUCCESS) guest::note_executable(*exec, graph, flags);
  return e;
}

CUresult note_updated(CUresult e, CUgraphExec exec, CUgraph graph) {
  if (e == CUDA_SUCCESS) guest::note_update(exec, graph);
  return e;
}

void follow_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  guest::follow(exec, [&](GraphMirror &mirror) { return mirror.set_child(node, child); });
}

}  // namespace

#define INSTANTIATE(symbol)                                                                 \
  CUresult guest_##symbol(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,  \
                          size_t bytes) {                                                   \
    PASS_OR_RETURN(pass);                                                                   \
    CUresult e = with_memory([&] { return REAL(symbol)(exec, graph, error, log, bytes); }); \
    return note_made(e, exec, graph, 0);                                                    \
  }
INSTANTIATE(cuGraphInstantiate)
INSTANTIATE(cuGraphInstantiate_v2)

CUresult guest_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                           unsigned long long flags) {
  PASS_OR_RETURN(pass);
  CUresult e = with_memory([&] { return REAL(cuGraphInstantiateWithFlags)(exec, graph, flags); });
  return note_made(e, exec, graph, flags);
}

#define INSTANTIATE_WITH_PARAMS(symbol)                                          \
  CUresult guest_##symbol(CUgraphExec *exec, CUgraph graph,                      \
                          CUDA_GRAPH_INSTANTIATE_PARAMS *params) {               \
    PASS_OR_RETURN(pass);                                                        \
    CUresult e = with_memory([&] { return REAL(symbol)(exec, graph, params); }); \
    return note_made(e, exec, graph, params == nullptr ? 0 : params->flags);     \
  }
INSTANTIATE_WITH_PARAMS(cuGraphInstantiateWithParams)
INSTANTIATE_WITH_PARAMS(cuGraphInstantiateWithParams_ptsz)

CUresult guest_cuGraphExecDestroy(CUgraphExec exec) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuGraphExecDestroy)(exec);
  if (e == CUDA_SUCCESS) guest::forget_executable(exec);
  return e;
}

CUresult guest_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error,
                                 CUgraphExecUpdateResult *result) {
  PASS_OR_RETURN(pass);
  CUresult e = with_memory([&] { return REAL(cuGraphExecUpdate)(exec, graph, error, result); });
  return note_updated(e, exec, graph);
}
CUresult guest_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                    CUgraphExecUpdateResultInfo *info) {
  PASS_OR_RETURN(pass);
  CUresult e = with_memory([&] { return REAL(cuGraphExecUpdate_v2)(exec, graph, info); });
  return note_updated(e, exec, graph);
}

#define SET_EXEC_KERNEL_NODE(symbol, same, Params)                                   \
  CUresult guest_##symbol(CUgraphExec exec, CUgraphNode node, const Params *given) { \
    PASS_OR_RETURN(pass);                                                            \
    NodeParams params(given);                                                        \
    return change_node(                                                              \
        exec, node, [&] { return REAL(symbol)(exec, node, params.get()); },          \
        [&](CUgraphNode mine) { return REAL(same)(mine, params.get()); });           \
  }
SET_EXEC_KERNEL_NODE(cuGraphExecKernelNodeSetParams, cuGraphKernelNodeSetParams,
                     CUDA_KERNEL_NODE_PARAMS_v1)
SET_EXEC_KERNEL_NODE(cuGraphExecKernelNodeSetParams_v2, cuGraphKernelNodeSetParams_v2,
                     CUDA_KERNEL_NODE_PARAMS_v2)

#define SET_EXEC_NODE_IN_CONTEXT(symbol, same, Params)                             \
  CUresult guest_##symbol(CUgraphExec exec, CUgraphNode node, const Params *given, \
                          CUcontext context) {                                     \
    PASS_OR_RETURN(pass);                                                          \
    return change_node(                                                            \
        exec, node, [&] { return REAL(symbol)(exec, node, given, context); },      \
        [&](CUgraphNode mine) { return REAL(same)(mine, given); });                \
  }
SET_EXEC_NODE_IN_CONTEXT(cuGraphExecMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams,
                         CUDA_MEMCPY3D_v2)
SET_EXEC_NODE_IN_CONTEXT(cuGraphExecMemsetNodeSetParams, cuGraphMemsetNodeSetParams,
                         CUDA_MEMSET_NODE_PARAMS_v1)

#define SET_EXEC_NODE(symbol, same, Value)                                              \
  CUresult guest_##symbol(CUgraphExec exec, CUgraphNode node, Value given) {            \
    PASS_OR_RETURN(pass);                                                               \
    if (CUresult e = make_private(Id::id_##symbol, given); e != CUDA_SUCCESS) return e; \
    return change_node(                                                                 \
        exec, node, [&] { return REAL(symbol)(exec, node, given); },                    \
        [&](CUgraphNode mine) { return guest::graph_calls().same(mine, given); });      \
  }
SET_EXEC_NODE(cuGraphExecEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, CUevent)
SET_EXEC_NODE(cuGraphExecEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, CUevent)

CUresult guest_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  CUgraph child) {
  PASS_OR_RETURN(pass);
  CUresult e =
      with_memory([&] { return REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child); });
  if (e == CUDA_SUCCESS) follow_child(exec, node, child);
  return e;
}

CUresult guest_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_HOST_NODE_PARAMS_v1 *given) {
  PASS_OR_RETURN(pass);
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS_v1 params = counted_node(*given);
  return change_node(
      exec, node, [&] { return REAL(cuGraphExecHostNodeSetParams)(exec, node, &params); },
      [&](CUgraphNode mine) {
        return guest::graph_calls().cuGraphHostNodeSetParams(mine, &params);
      });
}

CUresult guest_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  if (CUresult e = make_private(Id::id_cuGraphExecNodeSetParams, given); e != CUDA_SUCCESS)
    return e;
  AnyNodeParams params(given);
  auto real = [&] { return REAL(cuGraphExecNodeSetParams)(exec, node, params.get()); };
  if (given == nullptr || given->type != CU_GRAPH_NODE_TYPE_GRAPH)
    return change_node(exec, node, real, [&](CUgraphNode mine) {
      return REAL(cuGraphNodeSetParams)(mine, params.get());
    });
  CUresult e = with_memory(real);
  if (e == CUDA_SUCCESS) follow_child(exec, node, given->graph.graph);
  return e;
}

CUresult guest_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuGraphNodeSetEnabled)(exec, node, enabled);
  if (e == CUDA_SUCCESS)
    guest::follow(exec,
                  [&](GraphMirror &mirror) { return mirror.set_enabled(node, enabled != 0); });
  return e;
}

CUresult guest_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  PASS_OR_RETURN(pass);
  return guest::launch_graph(exec, guest::explicit_stream(stream, false), [&] {
    return with_memory([&] { return REAL(cuGraphLaunch)(exec, stream); });
  });
}
CUresult guest_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  PASS_OR_RETURN(pass);
  return guest::launch_graph(exec, guest::explicit_stream(stream, true), [&] {
    return with_memory([&] { return REAL(cuGraphLaunch_ptsz)(exec, stream); });
  });
}

}  // namespace ckpt::cuda
