// SPDX-License-Identifier: Apache-2.0
//
// Texture and surface objects.
#include <cstring>

#include "softcuda/runtime/boxes.h"
#include "softcuda/runtime/formats.h"

using namespace ckpt::softcuda::runtime;

namespace {

cudaError_t linear_of(const cudaResourceDesc &r, CUDA_RESOURCE_DESC &out) {
  out.resType = CU_RESOURCE_TYPE_LINEAR;
  out.res.linear.devPtr = address(r.res.linear.devPtr);
  out.res.linear.sizeInBytes = r.res.linear.sizeInBytes;
  return format_of(r.res.linear.desc, out.res.linear.format, out.res.linear.numChannels)
             ? cudaSuccess
             : cudaErrorInvalidChannelDescriptor;
}

cudaError_t pitch_of(const cudaResourceDesc &r, CUDA_RESOURCE_DESC &out) {
  out.resType = CU_RESOURCE_TYPE_PITCH2D;
  out.res.pitch2D.devPtr = address(r.res.pitch2D.devPtr);
  out.res.pitch2D.width = r.res.pitch2D.width;
  out.res.pitch2D.height = r.res.pitch2D.height;
  out.res.pitch2D.pitchInBytes = r.res.pitch2D.pitchInBytes;
  return format_of(r.res.pitch2D.desc, out.res.pitch2D.format, out.res.pitch2D.numChannels)
             ? cudaSuccess
             : cudaErrorInvalidChannelDescriptor;
}

cudaError_t as_driver(const cudaResourceDesc &r, CUDA_RESOURCE_DESC &out) {
  out = {};
  switch (r.resType) {
    case cudaResourceTypeArray:
      out.resType = CU_RESOURCE_TYPE_ARRAY;
      out.res.array.hArray = as_array(r.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out.res.mipmap.hMipmappedArray = as_mipmap(r.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear: return linear_of(r, out);
    case cudaResourceTypePitch2D: return pitch_of(r, out);
    default: return cudaErrorInvalidValue;
  }
}

void as_runtime(const CUDA_RESOURCE_DESC &r, cudaResourceDesc &out) {
  out = {};
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.resType = cudaResourceTypeArray;
      out.res.array.array = reinterpret_cast<cudaArray_t>(r.res.array.hArray);
      return;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.resType = cudaResourceTypeMipmappedArray;
      out.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(r.res.mipmap.hMipmappedArray);
      return;
    case CU_RESOURCE_TYPE_LINEAR:
      out.resType = cudaResourceTypeLinear;
      out.res.linear.devPtr = reinterpret_cast<void *>(r.res.linear.devPtr);
      out.res.linear.desc = description_of(r.res.linear.format, r.res.linear.numChannels);
      out.res.linear.sizeInBytes = r.res.linear.sizeInBytes;
      return;
    default:
      out.resType = cudaResourceTypePitch2D;
      out.res.pitch2D.devPtr = reinterpret_cast<void *>(r.res.pitch2D.devPtr);
      out.res.pitch2D.desc = description_of(r.res.pitch2D.format, r.res.pitch2D.numChannels);
      out.res.pitch2D.width = r.res.pitch2D.width;
      out.res.pitch2D.height = r.res.pitch2D.height;
      out.res.pitch2D.pitchInBytes = r.res.pitch2D.pitchInBytes;
  }
}

// The flags of the driver API that the runtime API has members for.
struct Flag {
  unsigned flag;
  int cudaTextureDesc::*member;
};
constexpr Flag kFlags[] = {
    {CU_TRSF_NORMALIZED_COORDINATES, &cudaTextureDesc::normalizedCoords},
    {CU_TRSF_SRGB, &cudaTextureDesc::sRGB},
    {CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, &cudaTextureDesc::disableTrilinearOptimization},
    {CU_TRSF_SEAMLESS_CUBEMAP, &cudaTextureDesc::seamlessCubemap}};

CUDA_TEXTURE_DESC as_driver(const cudaTextureDesc &t) {
  CUDA_TEXTURE_DESC d{};
  for (int k = 0; k < 3; ++k) d.addressMode[k] = static_cast<CUaddress_mode>(t.addressMode[k]);
  d.filterMode = static_cast<CUfilter_mode>(t.filterMode);
  if (t.readMode == cudaReadModeElementType) d.flags |= CU_TRSF_READ_AS_INTEGER;
  for (const Flag &f : kFlags)
    if (t.*f.member != 0) d.flags |= f.flag;
  d.maxAnisotropy = t.maxAnisotropy;
  d.mipmapFilterMode = static_cast<CUfilter_mode>(t.mipmapFilterMode);
  d.mipmapLevelBias = t.mipmapLevelBias;
  d.minMipmapLevelClamp = t.minMipmapLevelClamp;
  d.maxMipmapLevelClamp = t.maxMipmapLevelClamp;
  std::memcpy(d.borderColor, t.borderColor, sizeof d.borderColor);
  return d;
}

cudaTextureDesc as_runtime(const CUDA_TEXTURE_DESC &d) {
  cudaTextureDesc t{};
  for (int k = 0; k < 3; ++k)
    t.addressMode[k] = static_cast<cudaTextureAddressMode>(d.addressMode[k]);
  t.filterMode = static_cast<cudaTextureFilterMode>(d.filterMode);
  t.readMode = (d.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType
                                                        : cudaReadModeNormalizedFloat;
  for (const Flag &f : kFlags) t.*f.member = (d.flags & f.flag) != 0;
  t.maxAnisotropy = d.maxAnisotropy;
  t.mipmapFilterMode = static_cast<cudaTextureFilterMode>(d.mipmapFilterMode);
  t.mipmapLevelBias = d.mipmapLevelBias;
  t.minMipmapLevelClamp = d.minMipmapLevelClamp;
  t.maxMipmapLevelClamp = d.maxMipmapLevelClamp;
  std::memcpy(t.borderColor, d.borderColor, sizeof t.borderColor);
  return t;
}

// The same structure in both APIs.
static_assert(sizeof(cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC));
const CUDA_RESOURCE_VIEW_DESC *as_driver(const cudaResourceViewDesc *v) {
  return reinterpret_cast<const CUDA_RESOURCE_VIEW_DESC *>(v);
}

}  // namespace

CUDART_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *out, const cudaResourceDesc *r,
                                               const cudaTextureDesc *t,
                                               const cudaResourceViewDesc *view) {
  if (out == nullptr || r == nullptr || t == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC resource;
  RETURN_IF(as_driver(*r, resource));
  CUDA_TEXTURE_DESC d = as_driver(*t);
  FORWARD(cuTexObjectCreate(out, &resource, &d, as_driver(view)));
}
CUDART_API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t t) {
  if (t == 0) return cudaSuccess;
  FORWARD(cuTexObjectDestroy(t));
}
CUDART_API cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *out,
                                                        cudaTextureObject_t t) {
  RETURN_IF(enter());
  CUDA_RESOURCE_DESC r{};
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(as_runtime(cuTexObjectGetResourceDesc(&r, t)));
  as_runtime(r, *out);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *out,
                                                       cudaTextureObject_t t) {
  RETURN_IF(enter());
  CUDA_TEXTURE_DESC d{};
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(as_runtime(cuTexObjectGetTextureDesc(&d, t)));
  *out = as_runtime(d);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *out,
                                                            cudaTextureObject_t t) {
  FORWARD(cuTexObjectGetResourceViewDesc(reinterpret_cast<CUDA_RESOURCE_VIEW_DESC *>(out), t));
}

CUDART_API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *out,
                                                            const cudaChannelFormatDesc *desc,
                                                            int device) {
  CUarray_format format{};
  unsigned channels = 0;
  if (desc == nullptr || !format_of(*desc, format, channels)) return keep(cudaErrorInvalidValue);
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetTexture1DLinearMaxWidth(out, format, channels, device)));
}

CUDART_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *out,
                                               const cudaResourceDesc *r) {
  if (out == nullptr || r == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC resource;
  RETURN_IF(as_driver(*r, resource));
  FORWARD(cuSurfObjectCreate(out, &resource));
}
CUDART_API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t s) {
  if (s == 0) return cudaSuccess;
  FORWARD(cuSurfObjectDestroy(s));
}
CUDART_API cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *out,
                                                        cudaSurfaceObject_t s) {
  RETURN_IF(enter());
  CUDA_RESOURCE_DESC r{};
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(as_runtime(cuSurfObjectGetResourceDesc(&r, s)));
  as_runtime(r, *out);
  return cudaSuccess;
}
