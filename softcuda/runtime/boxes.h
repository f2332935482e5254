// SPDX-License-Identifier: Apache-2.0
//
// Converts the runtime API's pointers and copies to those of the driver API.
#pragma once

#include "softcuda/runtime/state.h"

namespace ckpt::softcuda::runtime {

inline CUdeviceptr address(const void *p) { return reinterpret_cast<CUdeviceptr>(p); }
inline CUdeviceptr *device_pointer(void **p) { return reinterpret_cast<CUdeviceptr *>(p); }
CUarray as_array(cudaArray_const_t a);
inline CUmipmappedArray as_mipmap(cudaMipmappedArray_const_t m) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray *>(m));
}
// Bytes of an array's element; 1 for no array.
size_t element_bytes(CUarray a);
// Bytes of an array's row; 0: not an array.
size_t row_bytes(CUarray a);

// A copy of `height` rows of `width` bytes.
CUDA_MEMCPY3D rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                   size_t height);
// If an array takes part, positions and extents count its elements, otherwise bytes.
CUDA_MEMCPY3D box(const cudaMemcpy3DParms &p);

}  // namespace ckpt::softcuda::runtime
