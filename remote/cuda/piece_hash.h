// SPDX-License-Identifier: Apache-2.0
//
// The hash by which both sides know that they have the same bytes: XXH3, 128 bits. Equal hashes of
// different bytes are no danger by chance (2^-128), and a program that makes them on purpose only
// harms itself.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

using PieceHash = std::array<u64, 2>;

inline PieceHash hash_of(ByteView bytes) {
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

}  // namespace ckpt::remote::cuda
