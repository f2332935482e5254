// SPDX-License-Identifier: Apache-2.0
//
// Arrays, and texture and surface objects.
#include <cstring>

#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

CUarray driver_array(cudaArray_const_t a) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray *>(a));
}

bool format_of(const cudaChannelFormatDesc &d, CUarray_format &format, unsigned &channels) {
  channels = d.w != 0 ? 4 : d.z != 0 ? 3 : d.y != 0 ? 2 : 1;
  bool even = (d.y == 0 || d.y == d.x) && (d.z == 0 || d.z == d.x) && (d.w == 0 || d.w == d.x);
  if (!even || channels == 3) return false;
  int size = d.x == 8 ? 0 : d.x == 16 ? 1 : d.x == 32 ? 2 : 3;
  static constexpr CUarray_format kUnsigned[] = {
      CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32};
  static constexpr CUarray_format kSigned[] = {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16,
                                               CU_AD_FORMAT_SIGNED_INT32};
  if (size > 2) return false;
  if (d.f == cudaChannelFormatKindFloat) {
    format = size == 1 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    return size > 0;
  }
  if (d.f != cudaChannelFormatKindSigned && d.f != cudaChannelFormatKindUnsigned) return false;
  format = d.f == cudaChannelFormatKindSigned ? kSigned[size] : kUnsigned[size];
  return true;
}

cudaChannelFormatDesc description_of(CUarray_format f, unsigned channels) {
  int bits = f == CU_AD_FORMAT_UNSIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT8     ? 8
             : f == CU_AD_FORMAT_UNSIGNED_INT16 || f == CU_AD_FORMAT_SIGNED_INT16 ? 16
             : f == CU_AD_FORMAT_HALF                                             ? 16
                                                                                  : 32;
  cudaChannelFormatKind kind = f == CU_AD_FORMAT_HALF || f == CU_AD_FORMAT_FLOAT
                                   ? cudaChannelFormatKindFloat
                               : f >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned
                                                               : cudaChannelFormatKindUnsigned;
  return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}

cudaError_t resource_of(const cudaResourceDesc &r, CUDA_RESOURCE_DESC &out) {
  out = {};
  if (r.resType == cudaResourceTypeArray) {
    out.resType = CU_RESOURCE_TYPE_ARRAY;
    out.res.array.hArray = driver_array(r.res.array.array);
    return cudaSuccess;
  }
  if (r.resType == cudaResourceTypeLinear) {
    out.resType = CU_RESOURCE_TYPE_LINEAR;
    out.res.linear.devPtr = reinterpret_cast<CUdeviceptr>(r.res.linear.devPtr);
    out.res.linear.sizeInBytes = r.res.linear.sizeInBytes;
    return format_of(r.res.linear.desc, out.res.linear.format, out.res.linear.numChannels)
               ? cudaSuccess
               : cudaErrorInvalidChannelDescriptor;
  }
  if (r.resType != cudaResourceTypePitch2D) return cudaErrorNotSupported;
  out.resType = CU_RESOURCE_TYPE_PITCH2D;
  out.res.pitch2D.devPtr = reinterpret_cast<CUdeviceptr>(r.res.pitch2D.devPtr);
  out.res.pitch2D.width = r.res.pitch2D.width;
  out.res.pitch2D.height = r.res.pitch2D.height;
  out.res.pitch2D.pitchInBytes = r.res.pitch2D.pitchInBytes;
  return format_of(r.res.pitch2D.desc, out.res.pitch2D.format, out.res.pitch2D.numChannels)
             ? cudaSuccess
             : cudaErrorInvalidChannelDescriptor;
}

}  // namespace

CUDART_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                       cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

CUDART_API cudaError_t cudaMalloc3DArray(cudaArray_t *out, const cudaChannelFormatDesc *desc,
                                         cudaExtent e, unsigned int flags) {
  if (out == nullptr || desc == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (!format_of(*desc, d.Format, d.NumChannels)) return keep(cudaErrorInvalidChannelDescriptor);
  d.Width = e.width;
  d.Height = e.height;
  d.Depth = e.depth;
  d.Flags = flags;
  FORWARD(cuArray3DCreate(reinterpret_cast<CUarray *>(out), &d));
}
CUDART_API cudaError_t cudaMallocArray(cudaArray_t *out, const cudaChannelFormatDesc *desc,
                                       size_t width, size_t height, unsigned int flags) {
  return cudaMalloc3DArray(out, desc, {width, height, 0}, flags);
}
CUDART_API cudaError_t cudaFreeArray(cudaArray_t a) {
  if (a == nullptr) return cudaSuccess;
  FORWARD(cuArrayDestroy(driver_array(a)));
}
CUDART_API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *e,
                                        unsigned int *flags, cudaArray_t a) {
  RETURN_IF(enter());
  CUDA_ARRAY3D_DESCRIPTOR d{};
  RETURN_IF(as_runtime(cuArray3DGetDescriptor(&d, driver_array(a))));
  if (desc != nullptr) *desc = description_of(d.Format, d.NumChannels);
  if (e != nullptr) *e = {d.Width, d.Height, d.Depth};
  if (flags != nullptr) *flags = d.Flags;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t a) {
  return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(a));
}

CUDART_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *out, const cudaResourceDesc *r,
                                               const cudaTextureDesc *t,
                                               const cudaResourceViewDesc *view) {
  if (out == nullptr || r == nullptr || t == nullptr) return keep(cudaErrorInvalidValue);
  if (view != nullptr) return keep(cudaErrorNotSupported);
  CUDA_RESOURCE_DESC resource;
  RETURN_IF(resource_of(*r, resource));
  CUDA_TEXTURE_DESC d{};
  for (int k = 0; k < 3; ++k) d.addressMode[k] = static_cast<CUaddress_mode>(t->addressMode[k]);
  d.filterMode = static_cast<CUfilter_mode>(t->filterMode);
  if (t->readMode == cudaReadModeElementType) d.flags |= CU_TRSF_READ_AS_INTEGER;
  if (t->normalizedCoords) d.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  std::memcpy(d.borderColor, t->borderColor, sizeof d.borderColor);
  FORWARD(cuTexObjectCreate(out, &resource, &d, nullptr));
}
CUDART_API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t t) {
  if (t == 0) return cudaSuccess;
  FORWARD(cuTexObjectDestroy(t));
}
CUDART_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *out,
                                               const cudaResourceDesc *r) {
  if (out == nullptr || r == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC resource;
  RETURN_IF(resource_of(*r, resource));
  FORWARD(cuSurfObjectCreate(out, &resource));
}
CUDART_API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t s) {
  if (s == 0) return cudaSuccess;
  FORWARD(cuSurfObjectDestroy(s));
}
