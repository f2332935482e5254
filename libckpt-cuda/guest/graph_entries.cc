// SPDX-License-Identifier: Apache-2.0
//
// Kernels in graphs. They run whole: a node of a graph has a shape that programs may ask for and
// change. All that is done here is to give a changed kernel its added parameter.
#include <optional>

#include "libckpt-cuda/entry/calls.h"
#include "libckpt-cuda/guest/arguments.h"

namespace ckpt::cuda {
namespace {

using guest::Arguments;
using guest::Kernel;

// The first version of the structure has no `kern`.
template <class Params>
const void *handle_of(const Params &p) {
  if constexpr (requires { p.kern; })
    if (p.func == nullptr) return p.kern;
  return p.func;
}

// A copy of the program's parameters with the added one. Lives while the driver copies them.
template <class Params>
class NodeParams {
 public:
  explicit NodeParams(const Params *given) : given_(given) {
    if (given == nullptr) return;
    Kernel *kernel = guest::kernel_of(handle_of(*given));
    if (kernel == nullptr) return;
    guest::name_whole(*kernel, "it is a part of a graph");
    copy_ = *given;
    slicing::Dim grid{copy_.gridDimX, copy_.gridDimY, copy_.gridDimZ};
    arguments_.emplace(*kernel, copy_.kernelParams, copy_.extra, grid);
    copy_.kernelParams = arguments_->params();
    copy_.extra = arguments_->extra();
  }
  const Params *get() const { return arguments_ ? &copy_ : given_; }

 private:
  const Params *given_;
  Params copy_{};
  std::optional<Arguments> arguments_;
};

// The same for a node of any type. The driver writes into the structure of some types, so those are
// passed on as they are.
class AnyNodeParams {
 public:
  explicit AnyNodeParams(CUgraphNodeParams *given) : given_(given) {
    if (given == nullptr || given->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
    copy_ = *given;
    kernel_.emplace(&given->kernel);
    copy_.kernel = *kernel_->get();
    given_ = &copy_;
  }
  CUgraphNodeParams *get() { return given_; }

 private:
  CUgraphNodeParams *given_;
  CUgraphNodeParams copy_{};
  std::optional<NodeParams<CUDA_KERNEL_NODE_PARAMS_v3>> kernel_;
};

}  // namespace

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

#define SET_EXEC_KERNEL_NODE(symbol, Params)                                          \
  CUresult guest_##symbol(CUgraphExec graph, CUgraphNode node, const Params *given) { \
    PASS_OR_RETURN(pass);                                                             \
    NodeParams params(given);                                                         \
    return with_memory([&] { return REAL(symbol)(graph, node, params.get()); });      \
  }
SET_EXEC_KERNEL_NODE(cuGraphExecKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1)
SET_EXEC_KERNEL_NODE(cuGraphExecKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2)

CUresult guest_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  AnyNodeParams params(given);
  return with_memory([&] { return REAL(cuGraphAddNode)(node, graph, after, n, params.get()); });
}

#define ADD_NODE_WITH_EDGES(symbol)                                                               \
  CUresult guest_##symbol(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,             \
                          const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *given) {     \
    PASS_OR_RETURN(pass);                                                                         \
    AnyNodeParams params(given);                                                                  \
    return with_memory([&] { return REAL(symbol)(node, graph, after, edges, n, params.get()); }); \
  }
ADD_NODE_WITH_EDGES(cuGraphAddNode_v2)
ADD_NODE_WITH_EDGES(cuGraphAddNode_v3)

#define SET_NODE(symbol)                                                  \
  CUresult guest_##symbol(CUgraphNode node, CUgraphNodeParams *given) {   \
    PASS_OR_RETURN(pass);                                                 \
    AnyNodeParams params(given);                                          \
    return with_memory([&] { return REAL(symbol)(node, params.get()); }); \
  }
SET_NODE(cuGraphNodeSetParams)
SET_NODE(cuGraphNodeSetParams_v2)

CUresult guest_cuGraphExecNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                        CUgraphNodeParams *given) {
  PASS_OR_RETURN(pass);
  AnyNodeParams params(given);
  return with_memory([&] { return REAL(cuGraphExecNodeSetParams)(graph, node, params.get()); });
}

}  // namespace ckpt::cuda
