// SPDX-License-Identifier: Apache-2.0
//
// Texture and surface objects on arrays or linear memory.
#include <algorithm>
#include <cstring>

#include "softcuda/driver/array.h"

namespace ckpt::softcuda::driver {
namespace {

struct TextureObject : vm::Texture {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC description{};
};

CUresult set_resource(const CUDA_RESOURCE_DESC &r, vm::Texture &t) {
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    const Array *a = process().arrays.get(r.res.array.hArray);
    REQUIRE(a != nullptr, CUDA_ERROR_INVALID_HANDLE);
    t.data = process().memory->host(a->base, 1);
    t.row_bytes = a->row_bytes;
    t.slice_bytes = a->slice_bytes;
    t.width = static_cast<u32>(a->desc.Width);
    t.height = std::max(1u, static_cast<u32>(a->desc.Height));
    t.depth = std::max(1u, static_cast<u32>(a->desc.Depth));
    t.channels = a->desc.NumChannels;
    t.channel = *channel_of(a->desc.Format);
    return CUDA_SUCCESS;
  }
  bool linear = r.resType == CU_RESOURCE_TYPE_LINEAR;
  REQUIRE(linear || r.resType == CU_RESOURCE_TYPE_PITCH2D, CUDA_ERROR_NOT_SUPPORTED);
  std::optional<vm::Channel> channel =
      channel_of(linear ? r.res.linear.format : r.res.pitch2D.format);
  REQUIRE(channel, CUDA_ERROR_NOT_SUPPORTED);
  t.channel = *channel;
  t.channels = linear ? r.res.linear.numChannels : r.res.pitch2D.numChannels;
  REQUIRE(t.channels == 1 || t.channels == 2 || t.channels == 4, CUDA_ERROR_INVALID_VALUE);
  u64 bytes = linear ? r.res.linear.sizeInBytes : r.res.pitch2D.pitchInBytes * r.res.pitch2D.height;
  t.linear_memory = linear;
  t.width = static_cast<u32>(linear ? bytes / t.element_bytes() : r.res.pitch2D.width);
  t.height = linear ? 1 : static_cast<u32>(r.res.pitch2D.height);
  t.row_bytes = linear ? bytes : r.res.pitch2D.pitchInBytes;
  t.data = process().memory->host(linear ? r.res.linear.devPtr : r.res.pitch2D.devPtr, bytes);
  REQUIRE(t.data != nullptr && t.width > 0 && t.height > 0, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult set_sampling(const CUDA_TEXTURE_DESC &d, vm::Texture &t) {
  for (int k = 0; k < 3; ++k) {
    REQUIRE(d.addressMode[k] >= CU_TR_ADDRESS_MODE_WRAP &&
                d.addressMode[k] <= CU_TR_ADDRESS_MODE_BORDER,
            CUDA_ERROR_INVALID_VALUE);
    t.mode[k] = static_cast<vm::AddressMode>(d.addressMode[k]);
  }
  t.filter = d.filterMode == CU_TR_FILTER_MODE_LINEAR;
  bool small = t.channel == vm::Channel::U8 || t.channel == vm::Channel::S8 ||
               t.channel == vm::Channel::U16 || t.channel == vm::Channel::S16;
  t.as_float = (d.flags & CU_TRSF_READ_AS_INTEGER) == 0 && small;
  t.normalized = (d.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  std::memcpy(t.border, d.borderColor, sizeof t.border);
  bool floats = t.as_float || t.channel == vm::Channel::Float || t.channel == vm::Channel::Half;
  REQUIRE(!t.filter || floats, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

Handles<TextureObject> &objects() {
  static auto *const kObjects = new Handles<TextureObject>;
  return *kObjects;
}

u64 publish(std::unique_ptr<TextureObject> t) {
  vm::register_texture(t.get());
  return reinterpret_cast<u64>(objects().add(t.release()));
}

CUresult destroy(u64 handle) {
  TextureObject *t = objects().get(reinterpret_cast<TextureObject *>(handle));
  REQUIRE(t != nullptr && objects().remove(t), CUDA_ERROR_INVALID_VALUE);
  vm::unregister_texture(t);
  delete t;
  return CUDA_SUCCESS;
}

TextureObject *object_at(u64 handle) {
  return objects().get(reinterpret_cast<TextureObject *>(handle));
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *r,
                                        const CUDA_TEXTURE_DESC *d,
                                        const CUDA_RESOURCE_VIEW_DESC *view) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && r != nullptr && d != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(view == nullptr, CUDA_ERROR_NOT_SUPPORTED);
  auto t = std::make_unique<TextureObject>();
  t->resource = *r;
  t->description = *d;
  CHECK_CU(set_resource(*r, *t));
  CHECK_CU(set_sampling(*d, *t));
  *out = publish(std::move(t));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuTexObjectDestroy(CUtexObject handle) {
  CALL_WITH_CONTEXT();
  call.context->synchronize();
  return destroy(handle);
}

SOFTCUDA_API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *r, CUtexObject handle) {
  CALL_WITH_CONTEXT();
  TextureObject *t = object_at(handle);
  REQUIRE(r != nullptr && t != nullptr, CUDA_ERROR_INVALID_VALUE);
  *r = t->resource;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *d, CUtexObject handle) {
  CALL_WITH_CONTEXT();
  TextureObject *t = object_at(handle);
  REQUIRE(d != nullptr && t != nullptr, CUDA_ERROR_INVALID_VALUE);
  *d = t->description;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *r) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && r != nullptr && r->resType == CU_RESOURCE_TYPE_ARRAY,
          CUDA_ERROR_INVALID_VALUE);
  auto t = std::make_unique<TextureObject>();
  t->resource = *r;
  CHECK_CU(set_resource(*r, *t));
  *out = publish(std::move(t));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  return cuTexObjectDestroy(handle);
}
SOFTCUDA_API CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *r, CUsurfObject handle) {
  return cuTexObjectGetResourceDesc(r, handle);
}
