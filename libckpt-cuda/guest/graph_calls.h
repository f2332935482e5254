// SPDX-License-Identifier: Apache-2.0
//
// The entries of the driver that read graphs and do the work of their nodes.
#pragma once

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda::guest {

#define CKPT_CUDA_GRAPH_CALLS(X)                                               \
  X(cuGraphClone, PFN_cuGraphClone_v10000)                                     \
  X(cuGraphCreate, PFN_cuGraphCreate_v10000)                                   \
  X(cuGraphDestroy, PFN_cuGraphDestroy_v10000)                                 \
  X(cuGraphGetNodes, PFN_cuGraphGetNodes_v10000)                               \
  X(cuGraphGetEdges_v2, PFN_cuGraphGetEdges_v12030)                            \
  X(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000)                         \
  X(cuGraphNodeFindInClone, PFN_cuGraphNodeFindInClone_v10000)                 \
  X(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000)   \
  X(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000)      \
  X(cuGraphKernelNodeGetAttribute, PFN_cuGraphKernelNodeGetAttribute_v11000)   \
  X(cuGraphMemcpyNodeGetParams, PFN_cuGraphMemcpyNodeGetParams_v10000)         \
  X(cuGraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000)         \
  X(cuGraphHostNodeGetParams, PFN_cuGraphHostNodeGetParams_v10000)             \
  X(cuGraphEventRecordNodeGetEvent, PFN_cuGraphEventRecordNodeGetEvent_v11010) \
  X(cuGraphEventWaitNodeGetEvent, PFN_cuGraphEventWaitNodeGetEvent_v11010)     \
  X(cuGraphHostNodeSetParams, PFN_cuGraphHostNodeSetParams_v10000)             \
  X(cuGraphEventRecordNodeSetEvent, PFN_cuGraphEventRecordNodeSetEvent_v11010) \
  X(cuGraphEventWaitNodeSetEvent, PFN_cuGraphEventWaitNodeSetEvent_v11010)     \
  X(cuGraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000)                     \
  X(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040)       \
  X(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000)                         \
  X(cuGraphLaunch, PFN_cuGraphLaunch_v10000)                                   \
  X(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020)                             \
  X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020)                                \
  X(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020)                              \
  X(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020)                              \
  X(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020)                            \
  X(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020)                          \
  X(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020)                          \
  X(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000)                    \
  X(cuStreamGetCtx, PFN_cuStreamGetCtx_v9020)

struct GraphCalls {
#define X(symbol, type) type symbol = nullptr;
  CKPT_CUDA_GRAPH_CALLS(X)
#undef X
};

// False: the driver does not have all of them (cuGraphGetEdges_v2 came with CUDA 12.3), so graphs
// run whole.
bool has_graph_calls();
const GraphCalls &graph_calls();

}  // namespace ckpt::cuda::guest
