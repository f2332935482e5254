// SPDX-License-Identifier: Apache-2.0
//
// FNV-1a, 64 bits: a hash of names that must stay the same between versions. It does not resist an
// adversary.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt {

inline constexpr u64 kFnvStart = 0xcbf29ce484222325;

// The hash of a text, or of its next piece: `so_far` is then the hash of the pieces before.
constexpr u64 fnv1a(std::string_view text, u64 so_far = kFnvStart) {
  for (char c : text) so_far = (so_far ^ static_cast<u8>(c)) * 0x100000001b3;
  return so_far;
}

}  // namespace ckpt
