// SPDX-License-Identifier: Apache-2.0
//
// How large an array is (CUDA driver API, cuArray3DCreate and cuMipmappedArrayCreate).
#pragma once

#include <cuda.h>

#include <algorithm>
#include <bit>

#include "common/base/bytes.h"

namespace ckpt::api {

// Of one channel; 0: a format of compressed blocks, or of planes of video.
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

// An array as one sequence of bytes, row after row and slice after slice. An extent of 0 stands for
// a dimension that the array does not have.
struct ArrayShape {
  u64 element_bytes = 0;                    // copies begin and end at elements
  u64 row_bytes = 0, rows = 0, slices = 0;  // layers and the faces of a cube are slices

  explicit constexpr ArrayShape(const CUDA_ARRAY3D_DESCRIPTOR &d)
      : element_bytes(d.NumChannels * channel_bytes(d.Format)),
        row_bytes(d.Width * element_bytes),
        rows(std::max<u64>(d.Height, 1)),
        slices(std::max<u64>(d.Depth, 1)) {}
  constexpr u64 slice_bytes() const { return row_bytes * rows; }
  constexpr u64 bytes() const { return slice_bytes() * slices; }
};

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

// 1 + floor(log2(max(width, height, depth))), as the driver API documents it: layers count, too.
inline u32 most_levels(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  return static_cast<u32>(std::bit_width(std::max({d.Width, d.Height, d.Depth})));
}

// A program may ask for none, and for more than there can be.
inline u32 levels_of(const CUDA_ARRAY3D_DESCRIPTOR &d, u32 wanted) {
  return std::min(std::max(wanted, 1u), most_levels(d));
}

}  // namespace ckpt::api
