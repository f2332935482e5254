// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "storage/chunk/chunk_codec.h"

namespace ckpt::storage {

// The buffers that a thread needs to decode chunks of one image, reused from chunk to chunk.
struct DecodeScratch {
  explicit DecodeScratch(size_t chunk_size)
      : stored(std::make_unique_for_overwrite<std::byte[]>(chunk_size)),
        raw(std::make_unique_for_overwrite<std::byte[]>(chunk_size)) {}

  ChunkDecoder decoder;
  // A buffer for decrypted bytes; allocated on first use.
  std::span<std::byte> opened(size_t size) { return first_of(opened_, size); }
  // A buffer for the base of a delta; allocated on first use.
  std::span<std::byte> base(size_t size) { return first_of(base_, size); }
  std::unique_ptr<std::byte[]> stored;
  std::unique_ptr<std::byte[]> raw;
  std::optional<u32> cached;  // the chunk that ImageReader::read() left in `raw`

 private:
  static std::span<std::byte> first_of(Bytes &buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return std::span(buffer).first(size);
  }
  Bytes opened_, base_;
};

}  // namespace ckpt::storage
