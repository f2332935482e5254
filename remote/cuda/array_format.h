// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

// Of one channel; 0: the format is not carried to other nodes (compressed blocks, planes of video).
constexpr u64 channel_bytes(CUarray_format f) {
  switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

// A level of a mipmapped array of this description: layers and faces of a cube do not become fewer.
inline CUDA_ARRAY3D_DESCRIPTOR level_of(CUDA_ARRAY3D_DESCRIPTOR d, u32 level) {
  auto halve = [level](size_t &extent) {
    if (extent > 0) extent = std::max<size_t>(extent >> level, 1);
  };
  halve(d.Width);
  halve(d.Height);
  if (!(d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP))) halve(d.Depth);
  return d;
}

// The driver makes no more levels than this (CUDA driver API, cuMipmappedArrayCreate).
inline u32 most_levels(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  return static_cast<u32>(std::bit_width(std::max({d.Width, d.Height, d.Depth})));
}

}  // namespace ckpt::remote::cuda
