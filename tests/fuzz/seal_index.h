// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include "storage/format/format.h"

namespace ckpt {

// Corrects magic, size and checksum of an index, so that the parser gets beyond them.
inline void seal_index(Bytes &file) {
  constexpr size_t kSizeAt = 16;
  if (file.size() < storage::kIndexHeaderBytes + storage::kChecksumBytes) return;
  std::memcpy(file.data(), storage::kIndexMagic.data(), storage::kIndexMagic.size());
  u64 size = file.size();
  std::memcpy(file.data() + kSizeAt, &size, sizeof size);
  size_t body = file.size() - storage::kChecksumBytes;
  u64 sum = XXH3_64bits(file.data(), body);
  std::memcpy(file.data() + body, &sum, sizeof sum);
}

}  // namespace ckpt
