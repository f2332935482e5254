// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/arrays.h"

#include <algorithm>

#include "remote/cuda/array_format.h"

namespace ckpt::remote::cuda {
namespace {

// Larger than any device's array: so the product of three fits.
constexpr u64 kMostExtent = 1u << 20;

// 0: the sizes or the format are none that a device has.
u64 bytes_of(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  if (std::max({d.Width, d.Height, d.Depth}) > kMostExtent || d.NumChannels > 4) return 0;
  return d.Width * std::max<u64>(d.Height, 1) * std::max<u64>(d.Depth, 1) * d.NumChannels *
         channel_bytes(d.Format);
}

}  // namespace

CUresult Arrays::make(const CUDA_ARRAY3D_DESCRIPTOR &d, CUarray &out) {
  u64 bytes = bytes_of(d);
  if (bytes == 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (!ask_(static_cast<i64>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = driver().cuArray3DCreate_v2(&out, &d);
  if (e != CUDA_SUCCESS) (void)ask_(-static_cast<i64>(bytes));
  return e;
}

void Arrays::add(u64 number, const CUDA_ARRAY3D_DESCRIPTOR &d) {
  std::lock_guard lock(mutex_);
  bytes_[number] = bytes_of(d);
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
