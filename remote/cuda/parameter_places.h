// SPDX-License-Identifier: Apache-2.0
//
// Where the parameters of a kernel lie among the packed ones, as the other side says it.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "common/base/fields.h"

namespace ckpt::remote::cuda {

// CUDA C++ Programming Guide, "Function Parameters": 32,764 bytes since compute capability 7.0.
inline constexpr u64 kMaxParameterBytes = 32u << 10;

// {u32 n, n × {u64 offset, u64 bytes}}. The message is refused unless the places are in order,
// apart from each other, and no more than a kernel may have.
inline std::vector<ByteRange> read_parameter_places(Reader &r) {
  std::vector<ByteRange> places;
  u64 end = 0;
  for (u32 n = read_count(r, sizeof(ByteRange)); n > 0 && r.ok(); n--) {
    ByteRange p = read_range(r, kMaxParameterBytes);
    if (p.offset < end) refuse_message(r);
    end = p.offset + p.bytes;
    places.push_back(p);
  }
  return places;
}

}  // namespace ckpt::remote::cuda
