// SPDX-License-Identifier: Apache-2.0
//
// What the runtime API's copies mean in the driver API's terms.
#pragma once

#include "softcuda/runtime/state.h"

namespace ckpt::softcuda::runtime {

inline CUdeviceptr address(const void *p) { return reinterpret_cast<CUdeviceptr>(p); }
CUarray as_array(cudaArray_const_t a);

// `height` rows of `width` bytes.
CUDA_MEMCPY3D rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                   size_t height);
// Positions and extents count elements where an array takes part, else bytes.
CUDA_MEMCPY3D box(const cudaMemcpy3DParms &p);

}  // namespace ckpt::softcuda::runtime
