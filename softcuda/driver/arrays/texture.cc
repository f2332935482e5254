// SPDX-License-Identifier: Apache-2.0
//
// Texture and surface objects on arrays, mipmapped arrays or linear memory.
#include <algorithm>
#include <cstring>

#include "softcuda/driver/arrays/resource_view.h"

namespace ckpt::softcuda::driver {
namespace {

struct TextureObject : vm::Texture {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC description{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

vm::Level level_of(const Array &a) {
  vm::Level l;
  l.data = process().memory->host(a.base, 1);
  l.row_bytes = a.row_bytes;
  l.slice_bytes = a.slice_bytes;
  l.width = static_cast<u32>(a.desc.Width);
  l.height = std::max(1u, static_cast<u32>(a.desc.Height));
  l.depth = std::max(1u, static_cast<u32>(a.desc.Depth));
  return l;
}

void set_format(const CUDA_ARRAY3D_DESCRIPTOR &d, vm::Texture &t) {
  t.channels = d.NumChannels;
  t.channel = *channel_of(d.Format);
}

CUresult set_array(CUarray handle, vm::Texture &t) {
  const Array *a = process().arrays.get(handle);
  REQUIRE(a != nullptr, CUDA_ERROR_INVALID_HANDLE);
  t.levels = {level_of(*a)};
  set_format(a->desc, t);
  return CUDA_SUCCESS;
}

CUresult set_mipmap(CUmipmappedArray handle, vm::Texture &t) {
  const Mipmap *m = process().mipmaps.get(handle);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  t.levels.clear();
  for (const std::unique_ptr<Array> &level : m->levels) t.levels.push_back(level_of(*level));
  set_format(m->desc, t);
  return CUDA_SUCCESS;
}

CUresult set_memory(const CUDA_RESOURCE_DESC &r, vm::Texture &t) {
  bool linear = r.resType == CU_RESOURCE_TYPE_LINEAR;
  REQUIRE(linear || r.resType == CU_RESOURCE_TYPE_PITCH2D, CUDA_ERROR_INVALID_VALUE);
  std::optional<vm::Channel> channel =
      channel_of(linear ? r.res.linear.format : r.res.pitch2D.format);
  if (!channel) return refuse("a texture of this format");
  t.channel = *channel;
  t.channels = linear ? r.res.linear.numChannels : r.res.pitch2D.numChannels;
  REQUIRE(t.channels == 1 || t.channels == 2 || t.channels == 4, CUDA_ERROR_INVALID_VALUE);
  u64 bytes = linear ? r.res.linear.sizeInBytes : r.res.pitch2D.pitchInBytes * r.res.pitch2D.height;
  REQUIRE(!linear || bytes / t.element_bytes() <= kLinearTextureElements, CUDA_ERROR_INVALID_VALUE);
  t.linear_memory = linear;
  vm::Level &l = t.levels[0];
  l.width = static_cast<u32>(linear ? bytes / t.element_bytes() : r.res.pitch2D.width);
  l.height = linear ? 1 : static_cast<u32>(r.res.pitch2D.height);
  l.row_bytes = linear ? bytes : r.res.pitch2D.pitchInBytes;
  l.data = process().memory->host(linear ? r.res.linear.devPtr : r.res.pitch2D.devPtr, bytes);
  REQUIRE(l.data != nullptr && l.width > 0 && l.height > 0, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult set_resource(const CUDA_RESOURCE_DESC &r, vm::Texture &t) {
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) return set_array(r.res.array.hArray, t);
  if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return set_mipmap(r.res.mipmap.hMipmappedArray, t);
  return set_memory(r, t);
}

bool is_filter(CUfilter_mode m) {
  return m == CU_TR_FILTER_MODE_POINT || m == CU_TR_FILTER_MODE_LINEAR;
}

CUresult set_reading(const CUDA_TEXTURE_DESC &d, vm::Texture &t) {
  constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                              CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                              CU_TRSF_SEAMLESS_CUBEMAP;
  REQUIRE((d.flags & ~kKnown) == 0, CUDA_ERROR_INVALID_VALUE);
  bool small = t.channel == vm::Channel::U8 || t.channel == vm::Channel::S8 ||
               t.channel == vm::Channel::U16 || t.channel == vm::Channel::S16;
  t.as_float = (d.flags & CU_TRSF_READ_AS_INTEGER) == 0 && small;
  t.normalized = (d.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  t.srgb = (d.flags & CU_TRSF_SRGB) != 0 && t.as_float && t.channel == vm::Channel::U8;
  t.seamless = (d.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  t.filter = d.filterMode == CU_TR_FILTER_MODE_LINEAR;
  REQUIRE(is_filter(d.filterMode) && (!t.filter || t.gives_floats()), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult set_levels(const CUDA_TEXTURE_DESC &d, vm::Texture &t) {
  t.filter_levels = d.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  t.level_bias = d.mipmapLevelBias;
  t.min_level = d.minMipmapLevelClamp;
  t.max_level = d.maxMipmapLevelClamp;
  t.anisotropy = std::clamp(d.maxAnisotropy, 1u, 16u);
  REQUIRE(is_filter(d.mipmapFilterMode), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult set_sampling(const CUDA_TEXTURE_DESC &d, vm::Texture &t) {
  for (int k = 0; k < 3; ++k) {
    REQUIRE(d.addressMode[k] >= CU_TR_ADDRESS_MODE_WRAP &&
                d.addressMode[k] <= CU_TR_ADDRESS_MODE_BORDER,
            CUDA_ERROR_INVALID_VALUE);
    t.mode[k] = static_cast<vm::AddressMode>(d.addressMode[k]);
  }
  std::memcpy(t.border, d.borderColor, sizeof t.border);
  CHECK_CU(set_reading(d, t));
  return set_levels(d, t);
}

// What holds for a texture of this resource only.
CUresult check_sampling(const CUDA_RESOURCE_DESC &r, const vm::Texture &t) {
  bool mipmapped = r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  REQUIRE(!mipmapped || (t.normalized && (!t.filter_levels || t.gives_floats())),
          CUDA_ERROR_INVALID_VALUE);
  std::optional<CUDA_ARRAY3D_DESCRIPTOR> d = description_of(r);
  bool cube = d && (d->Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  REQUIRE(!t.seamless || cube, CUDA_ERROR_INVALID_VALUE);
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

void end_textures_of(const Array &a) {
  const char *data = process().memory->host(a.base, 1);
  for (const TextureObject *t : objects().all())
    for (const vm::Level &l : t->levels)
      if (l.data >= data && l.data < data + bytes_of(a)) vm::unregister_texture(t);
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *r,
                                        const CUDA_TEXTURE_DESC *d,
                                        const CUDA_RESOURCE_VIEW_DESC *view) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && r != nullptr && d != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto t = std::make_unique<TextureObject>();
  t->resource = *r;
  t->description = *d;
  CHECK_CU(set_resource(*r, *t));
  if (view != nullptr) {
    t->view = *view;
    CHECK_CU(apply_view(*r, *view, *t));
  }
  CHECK_CU(set_sampling(*d, *t));
  CHECK_CU(check_sampling(*r, *t));
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

SOFTCUDA_API CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view,
                                                     CUtexObject handle) {
  CALL_WITH_CONTEXT();
  TextureObject *t = object_at(handle);
  REQUIRE(view != nullptr && t != nullptr && t->view, CUDA_ERROR_INVALID_VALUE);
  *view = *t->view;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *elements, CUarray_format format,
                                                         unsigned channels, CUdevice dev) {
  CALL_INITIALISED();
  REQUIRE(device_at(dev) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(elements != nullptr && channel_of(format) &&
              (channels == 1 || channels == 2 || channels == 4),
          CUDA_ERROR_INVALID_VALUE);
  *elements = kLinearTextureElements;
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
