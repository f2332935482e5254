// SPDX-License-Identifier: Apache-2.0
//
// Host functions in graphs. The driver gets a function that counts in their place, and the program
// is told of its own.
#include "libckpt-cuda/calls/private_events.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/lifecycle/host_node_params.h"

namespace ckpt::cuda {

CUresult entry_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t n, const CUDA_HOST_NODE_PARAMS_v1 *given) {
  HOLD_OR_RETURN(held);
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS_v1 params = counted_node(*given);
  return REAL(cuGraphAddHostNode)(node, graph, after, n, &params);
}

CUresult entry_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *given) {
  HOLD_OR_RETURN(held);
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS_v1 params = counted_node(*given);
  return REAL(cuGraphHostNodeSetParams)(node, &params);
}

CUresult entry_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_HOST_NODE_PARAMS_v1 *given) {
  HOLD_OR_RETURN(held);
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS_v1 params = counted_node(*given);
  return REAL(cuGraphExecHostNodeSetParams)(exec, node, &params);
}

CUresult entry_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS_v1 *out) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuGraphHostNodeGetParams)(node, out);
  if (e != CUDA_SUCCESS) return e;
  HostFunction f = uncounted({out->fn, out->userData});
  *out = {f.function, f.data};
  return e;
}

CUresult entry_cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *out) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuGraphNodeGetParams)(node, out);
  if (e != CUDA_SUCCESS || out->type != CU_GRAPH_NODE_TYPE_HOST) return e;
  HostFunction f = uncounted({out->host.fn, out->host.userData});
  out->host.fn = f.function;
  out->host.userData = f.data;
  return e;
}

CUresult entry_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  if (CUresult e = make_private(Id::id_cuGraphAddNode, given); e != CUDA_SUCCESS) return e;
  HostNodeParams params(given);
  return with_memory([&] { return REAL(cuGraphAddNode)(node, graph, after, n, params.get()); });
}

#define ADD_ANY_NODE(symbol)                                                                      \
  CUresult entry_##symbol(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,             \
                          const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *given) {     \
    PASS_OR_RETURN(pass);                                                                         \
    if (CUresult e = make_private(Id::id_##symbol, given); e != CUDA_SUCCESS) return e;           \
    HostNodeParams params(given);                                                                 \
    return with_memory([&] { return REAL(symbol)(node, graph, after, edges, n, params.get()); }); \
  }
ADD_ANY_NODE(cuGraphAddNode_v2)
ADD_ANY_NODE(cuGraphAddNode_v3)

#define SET_ANY_NODE(symbol)                                                            \
  CUresult entry_##symbol(CUgraphNode node, CUgraphNodeParams *given) {                 \
    PASS_OR_RETURN(pass);                                                               \
    if (CUresult e = make_private(Id::id_##symbol, given); e != CUDA_SUCCESS) return e; \
    HostNodeParams params(given);                                                       \
    return with_memory([&] { return REAL(symbol)(node, params.get()); });               \
  }
SET_ANY_NODE(cuGraphNodeSetParams)
SET_ANY_NODE(cuGraphNodeSetParams_v2)

CUresult entry_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  if (CUresult e = make_private(Id::id_cuGraphExecNodeSetParams, given); e != CUDA_SUCCESS)
    return e;
  HostNodeParams params(given);
  return with_memory([&] { return REAL(cuGraphExecNodeSetParams)(exec, node, params.get()); });
}

}  // namespace ckpt::cuda
