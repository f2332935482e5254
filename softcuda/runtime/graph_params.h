// SPDX-License-Identifier: Apache-2.0
//
// Converts the parameters of graph nodes between the runtime API and the driver API.
#pragma once

#include <cstring>

#include "softcuda/runtime/boxes.h"

namespace ckpt::softcuda::runtime {

// Also make a context current.
cudaError_t kernel_params(const cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS &out);
cudaError_t driver_params(const cudaGraphNodeParams *p, CUgraphNodeParams &out);

// Either form of the structs.
template <class Runtime, class Driver>
void allocation_params(const Runtime &p, Driver &out) {
  out.poolProps.allocType = static_cast<CUmemAllocationType>(p.poolProps.allocType);
  out.poolProps.location.type = static_cast<CUmemLocationType>(p.poolProps.location.type);
  out.poolProps.location.id = p.poolProps.location.id;
  out.accessDescCount = p.accessDescCount;
  out.bytesize = p.bytesize;
}
CUDA_MEMSET_NODE_PARAMS memset_params(const cudaMemsetParams &p);
// The reverse of box().
cudaMemcpy3DParms parms_of(const CUDA_MEMCPY3D &d);

}  // namespace ckpt::softcuda::runtime
