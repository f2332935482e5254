// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/arrays/resource_view.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr vm::Channel kChannels[] = {vm::Channel::U8,   vm::Channel::S8,   vm::Channel::U16,
                                     vm::Channel::S16,  vm::Channel::U32,  vm::Channel::S32,
                                     vm::Channel::Half, vm::Channel::Float};

// The formats with one, two and four channels of a type have consecutive numbers.
CUresult set_view_format(CUresourceViewFormat f, vm::Texture &t) {
  if (f == CU_RES_VIEW_FORMAT_NONE) return CUDA_SUCCESS;
  REQUIRE(f >= CU_RES_VIEW_FORMAT_UINT_1X8, CUDA_ERROR_INVALID_VALUE);
  if (f > CU_RES_VIEW_FORMAT_FLOAT_4X32) return refuse("a resource view of compressed blocks");
  u32 n = static_cast<u32>(f - CU_RES_VIEW_FORMAT_UINT_1X8), bytes = t.element_bytes();
  t.channel = kChannels[n / 3];
  t.channels = 1u << n % 3;
  REQUIRE(t.element_bytes() == bytes, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult choose_levels(const CUDA_RESOURCE_VIEW_DESC &v, vm::Texture &t) {
  REQUIRE(v.firstMipmapLevel <= v.lastMipmapLevel && v.lastMipmapLevel < t.levels.size(),
          CUDA_ERROR_INVALID_VALUE);
  t.levels.erase(t.levels.begin() + v.lastMipmapLevel + 1, t.levels.end());
  t.levels.erase(t.levels.begin(), t.levels.begin() + v.firstMipmapLevel);
  return CUDA_SUCCESS;
}

CUresult choose_layers(const CUDA_ARRAY3D_DESCRIPTOR &d, const CUDA_RESOURCE_VIEW_DESC &v,
                       vm::Texture &t) {
  bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  REQUIRE(v.firstLayer <= v.lastLayer && v.lastLayer < (layered ? d.Depth : 1),
          CUDA_ERROR_INVALID_VALUE);
  if (!layered) return CUDA_SUCCESS;
  u32 count = v.lastLayer - v.firstLayer + 1;
  bool cubes = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  REQUIRE(!cubes || (v.firstLayer % 6 == 0 && count % 6 == 0), CUDA_ERROR_INVALID_VALUE);
  for (vm::Level &l : t.levels) {
    l.data += v.firstLayer * l.slice_bytes;
    l.depth = count;
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<CUDA_ARRAY3D_DESCRIPTOR> description_of(const CUDA_RESOURCE_DESC &r) {
  std::optional<CUDA_ARRAY3D_DESCRIPTOR> d;
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    if (const Array *a = process().arrays.get(r.res.array.hArray)) d = a->desc;
  } else if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    if (const Mipmap *m = process().mipmaps.get(r.res.mipmap.hMipmappedArray)) d = m->desc;
  }
  return d;
}

CUresult apply_view(const CUDA_RESOURCE_DESC &r, const CUDA_RESOURCE_VIEW_DESC &v, vm::Texture &t) {
  std::optional<CUDA_ARRAY3D_DESCRIPTOR> d = description_of(r);
  REQUIRE(d, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(set_view_format(v.format, t));
  REQUIRE(v.width == d->Width && v.height == d->Height && v.depth == d->Depth,
          CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(choose_levels(v, t));
  return choose_layers(*d, v, t);
}

}  // namespace ckpt::softcuda::driver
