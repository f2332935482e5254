// SPDX-License-Identifier: Apache-2.0
//
// xxHash. Where the library is built for several instruction sets, its dispatcher picks the fastest
// one that this processor supports.
#pragma once

#ifndef XXH_STATIC_LINKING_ONLY
#define XXH_STATIC_LINKING_ONLY  // the size of XXH3_state_t
#endif
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // redefines the function names of xxhash.h
#endif

#include "common/base/bytes.h"

namespace ckpt::storage {

inline u64 xxh3_64(ByteView data) { return XXH3_64bits(data.data(), data.size()); }
inline XXH128_hash_t xxh3_128(ByteView data, u64 seed) {
  return XXH3_128bits_withSeed(data.data(), data.size(), seed);
}

// XXH3-64 of bytes that arrive in pieces.
class Xxh3_64 {
 public:
  Xxh3_64() { XXH3_64bits_reset(&state_); }
  void add(ByteView data) { XXH3_64bits_update(&state_, data.data(), data.size()); }
  u64 value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// XXH3-128 of bytes that arrive in pieces: after each piece, the hash of all bytes so far.
class Xxh3_128 {
 public:
  explicit Xxh3_128(u64 seed) { XXH3_128bits_reset_withSeed(&state_, seed); }
  void add(ByteView data) { XXH3_128bits_update(&state_, data.data(), data.size()); }
  XXH128_hash_t value() const { return XXH3_128bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace ckpt::storage
