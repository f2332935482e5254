// SPDX-License-Identifier: Apache-2.0
#include "softcuda/runtime/boxes.h"

#include <algorithm>

#include "cuda/arrays.h"

namespace ckpt::softcuda::runtime {

namespace {

api::ArrayShape shape_of(CUarray a) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (a != nullptr) (void)cuArray3DGetDescriptor(&d, a);
  return api::ArrayShape(d);
}

}  // namespace

size_t element_bytes(CUarray a) { return std::max<size_t>(shape_of(a).element_bytes, 1); }
size_t row_bytes(CUarray a) { return shape_of(a).row_bytes; }

CUDA_MEMCPY3D rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                   size_t height) {
  CUDA_MEMCPY3D d{};
  d.dstMemoryType = d.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  d.dstDevice = address(dst);
  d.srcDevice = address(src);
  d.dstPitch = dst_pitch;
  d.srcPitch = src_pitch;
  d.WidthInBytes = width;
  d.Height = height;
  d.Depth = 1;
  return d;
}

CUarray as_array(cudaArray_const_t a) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray *>(a));
}

CUDA_MEMCPY3D box(const cudaMemcpy3DParms &p) {
  CUDA_MEMCPY3D d{};
  CUarray to = as_array(p.dstArray), from = as_array(p.srcArray);
  size_t element = to != nullptr ? element_bytes(to) : element_bytes(from);
  d.dstMemoryType = to != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.dstArray = to;
  d.dstDevice = address(p.dstPtr.ptr);
  d.dstPitch = p.dstPtr.pitch;
  d.dstHeight = p.dstPtr.ysize;
  d.dstXInBytes = p.dstPos.x * (to != nullptr ? element : 1);
  d.dstY = p.dstPos.y;
  d.dstZ = p.dstPos.z;
  d.srcMemoryType = from != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.srcArray = from;
  d.srcDevice = address(p.srcPtr.ptr);
  d.srcPitch = p.srcPtr.pitch;
  d.srcHeight = p.srcPtr.ysize;
  d.srcXInBytes = p.srcPos.x * (from != nullptr ? element : 1);
  d.srcY = p.srcPos.y;
  d.srcZ = p.srcPos.z;
  d.WidthInBytes = p.extent.width * element;
  d.Height = p.extent.height;
  d.Depth = p.extent.depth;
  return d;
}

}  // namespace ckpt::softcuda::runtime
