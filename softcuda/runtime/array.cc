// SPDX-License-Identifier: Apache-2.0
//
// Arrays and mipmapped arrays.
#include "softcuda/runtime/boxes.h"
#include "softcuda/runtime/formats.h"

using namespace ckpt::softcuda::runtime;

namespace {

cudaError_t descriptor_of(const cudaChannelFormatDesc *desc, cudaExtent e, unsigned flags,
                          CUDA_ARRAY3D_DESCRIPTOR &d) {
  if (desc == nullptr) return cudaErrorInvalidValue;
  if (!format_of(*desc, d.Format, d.NumChannels)) return cudaErrorInvalidChannelDescriptor;
  d.Width = e.width;
  d.Height = e.height;
  d.Depth = e.depth;
  d.Flags = flags;
  return cudaSuccess;
}

}  // namespace

CUDART_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                       cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

CUDART_API cudaError_t cudaMalloc3DArray(cudaArray_t *out, const cudaChannelFormatDesc *desc,
                                         cudaExtent e, unsigned int flags) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_ARRAY3D_DESCRIPTOR d{};
  RETURN_IF(descriptor_of(desc, e, flags, d));
  FORWARD(cuArray3DCreate(reinterpret_cast<CUarray *>(out), &d));
}
CUDART_API cudaError_t cudaMallocArray(cudaArray_t *out, const cudaChannelFormatDesc *desc,
                                       size_t width, size_t height, unsigned int flags) {
  return cudaMalloc3DArray(out, desc, {width, height, 0}, flags);
}
CUDART_API cudaError_t cudaFreeArray(cudaArray_t a) {
  if (a == nullptr) return cudaSuccess;
  FORWARD(cuArrayDestroy(as_array(a)));
}
CUDART_API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *e,
                                        unsigned int *flags, cudaArray_t a) {
  RETURN_IF(enter());
  CUDA_ARRAY3D_DESCRIPTOR d{};
  RETURN_IF(as_runtime(cuArray3DGetDescriptor(&d, as_array(a))));
  if (desc != nullptr) *desc = description_of(d.Format, d.NumChannels);
  if (e != nullptr) *e = {d.Width, d.Height, d.Depth};
  if (flags != nullptr) *flags = d.Flags;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t a) {
  return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(a));
}

CUDART_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *out,
                                                const cudaChannelFormatDesc *desc, cudaExtent e,
                                                unsigned int levels, unsigned int flags) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_ARRAY3D_DESCRIPTOR d{};
  RETURN_IF(descriptor_of(desc, e, flags, d));
  FORWARD(cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray *>(out), &d, levels));
}
CUDART_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t m) {
  if (m == nullptr) return cudaSuccess;
  FORWARD(cuMipmappedArrayDestroy(as_mipmap(m)));
}
CUDART_API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *out, cudaMipmappedArray_const_t m,
                                                  unsigned int level) {
  FORWARD(cuMipmappedArrayGetLevel(reinterpret_cast<CUarray *>(out), as_mipmap(m), level));
}

CUDART_API cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements *out,
                                                      cudaArray_t a, int device) {
  FORWARD(cuArrayGetMemoryRequirements(reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS *>(out),
                                       as_array(a), device));
}
CUDART_API cudaError_t cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements *out,
                                                               cudaMipmappedArray_t m, int device) {
  FORWARD(cuMipmappedArrayGetMemoryRequirements(
      reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS *>(out), as_mipmap(m), device));
}
