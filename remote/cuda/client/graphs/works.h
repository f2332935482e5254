// SPDX-License-Identifier: Apache-2.0
//
// The work of a node from a program's parameters, which are checked and copied; and the parameters
// again from the work.
#pragma once

#include "remote/cuda/client/graphs/graph.h"

namespace ckpt::remote::cuda {

using NewWork = std::shared_ptr<Work>;

// These call the device where they have to ask it for a function's parameters.
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v1 &p, NewWork &out);
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v2 &p, NewWork &out);
CUresult make_work(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra,
                   NewWork &out);
CUresult make_work(const CUDA_MEMCPY3D_v2 &p, NewWork &out);
CUresult make_work(const CUDA_MEMSET_NODE_PARAMS_v1 &p, NewWork &out);
CUresult make_work(const CUDA_HOST_NODE_PARAMS_v1 &p, NewWork &out);
CUresult make_work(const CUevent &event, NewWork &out);
// Of a type that has parameters of one of these kinds.
CUresult make_work(const CUgraphNodeParams &p, NewWork &out);

// A copy of bytes that are behind each other.
CUDA_MEMCPY3D_v2 linear_copy(u64 to, u64 from, u64 bytes);

// False: it is the work of another kind of node. Pointers to a kernel's parameters are valid as
// long as the node has this work.
bool read_work(const Work &w, CUDA_KERNEL_NODE_PARAMS_v1 &p);
bool read_work(const Work &w, CUDA_KERNEL_NODE_PARAMS_v2 &p);
bool read_work(const Work &w, CUevent &p);
template <class Parameters>
bool read_work(const Work &w, Parameters &p) {
  const auto *found = std::get_if<Parameters>(&w);
  if (found) p = *found;
  return found != nullptr;
}

}  // namespace ckpt::remote::cuda
