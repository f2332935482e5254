// SPDX-License-Identifier: Apache-2.0
//
// Parameters of kernel nodes with the added one: a changed kernel needs it, also in a graph. It
// describes the whole grid.
#pragma once

#include <optional>

#include "libckpt-cuda/guest/arguments.h"
#include "libckpt-cuda/lifecycle/host_node_params.h"

namespace ckpt::cuda::guest {

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
    Kernel *kernel = kernel_of(handle_of(*given));
    if (kernel == nullptr) return;
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
  explicit AnyNodeParams(CUgraphNodeParams *given) : host_(given), given_(host_.get()) {
    if (given == nullptr || given->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
    copy_ = *given;
    kernel_.emplace(&given->kernel);
    copy_.kernel = *kernel_->get();
    given_ = &copy_;
  }
  CUgraphNodeParams *get() { return given_; }

 private:
  HostNodeParams host_;
  CUgraphNodeParams *given_;
  CUgraphNodeParams copy_{};
  std::optional<NodeParams<CUDA_KERNEL_NODE_PARAMS_v3>> kernel_;
};

}  // namespace ckpt::cuda::guest
