// SPDX-License-Identifier: Apache-2.0
//
// Parameters of nodes of graphs, with a counted function where the node is a host function, and
// device memory where a copy names managed memory of ours as the host's.
#pragma once

#include "libckpt-cuda/lifecycle/host_functions.h"
#include "libckpt-cuda/memory/paired_arguments.h"

namespace ckpt::cuda {

inline CUDA_HOST_NODE_PARAMS_v1 counted_node(const CUDA_HOST_NODE_PARAMS_v1 &given) {
  HostFunction f = counted({given.fn, given.userData});
  return {f.function, f.data};
}

// Lives while the driver copies them. It writes into the structure of some other types, so those
// are passed on as they are.
class HostNodeParams {
 public:
  explicit HostNodeParams(CUgraphNodeParams *given) : given_(given) {
    if (given == nullptr) return;
    if (given->type == CU_GRAPH_NODE_TYPE_MEMCPY && paired_memory().any()) {
      copy_ = *given;
      as_device_memory(copy_.memcpy.copyParams);
      given_ = &copy_;
    }
    if (given->type != CU_GRAPH_NODE_TYPE_HOST) return;
    copy_ = *given;
    HostFunction f = counted({given->host.fn, given->host.userData});
    copy_.host.fn = f.function;
    copy_.host.userData = f.data;
    given_ = &copy_;
  }
  CUgraphNodeParams *get() { return given_; }

 private:
  CUgraphNodeParams *given_;
  CUgraphNodeParams copy_{};
};

}  // namespace ckpt::cuda
