// SPDX-License-Identifier: Apache-2.0
//
// Kernels in graphs get the added parameter when a node is made or changed.
#include "libckpt-cuda/calls/private_events.h"
#include "libckpt-cuda/guest/node_params.h"

namespace ckpt::cuda {

using guest::AnyNodeParams;
using guest::NodeParams;

#define ADD_KERNEL_NODE(symbol, Params)                                                         \
  CUresult guest_##symbol(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, \
                          const Params *given) {                                                \
    PASS_OR_RETURN(pass);                                                                       \
    NodeParams params(given);                                                                   \
    return with_memory([&] { return REAL(symbol)(node, graph, after, n, params.get()); });      \
  }
ADD_KERNEL_NODE(cuGraphAddKernelNode, CUDA_KERNEL_NODE_PARAMS_v1)
ADD_KERNEL_NODE(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS_v2)

#define SET_KERNEL_NODE(symbol, Params)                                   \
  CUresult guest_##symbol(CUgraphNode node, const Params *given) {        \
    PASS_OR_RETURN(pass);                                                 \
    NodeParams params(given);                                             \
    return with_memory([&] { return REAL(symbol)(node, params.get()); }); \
  }
SET_KERNEL_NODE(cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1)
SET_KERNEL_NODE(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2)

CUresult guest_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  if (CUresult e = make_private(Id::id_cuGraphAddNode, given); e != CUDA_SUCCESS) return e;
  AnyNodeParams params(given);
  return with_memory([&] { return REAL(cuGraphAddNode)(node, graph, after, n, params.get()); });
}

#define ADD_NODE_WITH_EDGES(symbol)                                                               \
  CUresult guest_##symbol(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,             \
                          const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *given) {     \
    PASS_OR_RETURN(pass);                                                                         \
    if (CUresult e = make_private(Id::id_##symbol, given); e != CUDA_SUCCESS) return e;           \
    AnyNodeParams params(given);                                                                  \
    return with_memory([&] { return REAL(symbol)(node, graph, after, edges, n, params.get()); }); \
  }
ADD_NODE_WITH_EDGES(cuGraphAddNode_v2)
ADD_NODE_WITH_EDGES(cuGraphAddNode_v3)

#define SET_NODE(symbol)                                                                \
  CUresult guest_##symbol(CUgraphNode node, CUgraphNodeParams *given) {                 \
    PASS_OR_RETURN(pass);                                                               \
    if (CUresult e = make_private(Id::id_##symbol, given); e != CUDA_SUCCESS) return e; \
    AnyNodeParams params(given);                                                        \
    return with_memory([&] { return REAL(symbol)(node, params.get()); });               \
  }
SET_NODE(cuGraphNodeSetParams)
SET_NODE(cuGraphNodeSetParams_v2)

}  // namespace ckpt::cuda
