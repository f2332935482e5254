// SPDX-License-Identifier: Apache-2.0
//
// FNV-1a: a hash that stays the same between versions, for names. Not against an adversary.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt {

inline constexpr u64 kFnvStart = 0xcbf29ce484222325;

// Of a text in pieces: `so_far` is the hash of those before it.
constexpr u64 fnv1a(std::string_view text, u64 so_far = kFnvStart) {
  for (char c : text) so_far = (so_far ^ static_cast<u8>(c)) * 0x100000001b3;
  return so_far;
}

}  // namespace ckpt
