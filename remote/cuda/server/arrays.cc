// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/arrays.h"

#include <algorithm>

#include "cuda/arrays.h"

namespace ckpt::remote::cuda {
namespace {

// Larger than any device's array: so the product of three fits.
constexpr u64 kMostExtent = 1u << 20;

// 0: the sizes or the format are none that a device has.
u64 bytes_of(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  if (std::max({d.Width, d.Height, d.Depth}) > kMostExtent || d.NumChannels > 4) return 0;
  return api::ArrayShape(d).bytes();
}

u64 bytes_of_levels(const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels) {
  u64 all = 0;
  for (u32 i = 0; i < api::levels_of(d, levels); i++) all += bytes_of(api::level_of(d, i));
  return all;
}

}  // namespace

template <class Make>
CUresult Arrays::make_counted(u64 bytes, Make make) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!ask_(static_cast<i64>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = make();
  if (e != CUDA_SUCCESS) (void)ask_(-static_cast<i64>(bytes));
  return e;
}

CUresult Arrays::make(const CUDA_ARRAY3D_DESCRIPTOR &d, CUarray &out) {
  return make_counted(bytes_of(d), [&] { return driver().cuArray3DCreate_v2(&out, &d); });
}

CUresult Arrays::make_mipmap(const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels, CUmipmappedArray &out) {
  return make_counted(bytes_of_levels(d, levels),
                      [&] { return driver().cuMipmappedArrayCreate(&out, &d, levels); });
}

void Arrays::add(u64 number, const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels) {
  std::lock_guard lock(mutex_);
  bytes_[number] = bytes_of_levels(d, levels);
}

void Arrays::forget(u64 number) {
  std::lock_guard lock(mutex_);
  auto found = bytes_.find(number);
  if (found == bytes_.end()) return;
  (void)ask_(-static_cast<i64>(found->second));
  bytes_.erase(found);
}

void Arrays::add_texture(bool surface, u64 key, u64 object) {
  std::lock_guard lock(mutex_);
  textures_[{surface, key}] = object;
}

std::optional<u64> Arrays::remove_texture(bool surface, u64 key) {
  std::lock_guard lock(mutex_);
  auto found = textures_.find({surface, key});
  if (found == textures_.end()) return {};
  u64 object = found->second;
  textures_.erase(found);
  return object;
}

}  // namespace ckpt::remote::cuda
