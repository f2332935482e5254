// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "storage/chunk/chunk_codec.h"

namespace ckpt::storage {

// What one thread needs for decoding chunks of an image, kept from chunk to chunk.
struct DecodeScratch {
  explicit DecodeScratch(size_t chunk_size)
      : stored(std::make_unique_for_overwrite<std::byte[]>(chunk_size)),
        raw(std::make_unique_for_overwrite<std::byte[]>(chunk_size)) {}

  ChunkDecoder decoder;
  // Room for what was sealed; taken at its first use.
  std::span<std::byte> opened(size_t size) {
    if (opened_.size() < size) opened_.resize(size);
    return std::span(opened_).first(size);
  }
  // The same for a delta's base.
  std::span<std::byte> base(size_t size) {
    if (base_.size() < size) base_.resize(size);
    return std::span(base_).first(size);
  }
  std::unique_ptr<std::byte[]> stored;
  std::unique_ptr<std::byte[]> raw;
  std::optional<u32> cached;  // the chunk that `raw` holds, for ImageReader::read

 private:
  Bytes opened_, base_;
};

}  // namespace ckpt::storage
