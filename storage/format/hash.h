// SPDX-License-Identifier: Apache-2.0
//
// xxHash. Where the library is built for several instruction sets, its dispatcher picks the fastest
// one that this processor supports.
#pragma once

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

}  // namespace ckpt::storage
