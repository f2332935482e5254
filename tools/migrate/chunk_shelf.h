// SPDX-License-Identifier: Apache-2.0
//
// The stored chunks that the receiver of a migration has in the images of earlier rounds. An image
// refers to chunks of its parents by itself. But a program that swaps two buffers has, in round 3,
// bytes that round 1 had and round 2 had not: the writer of round 3 knows only the chunks of round
// 2, stores them again, and the receiver still has them.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::tools {

class ChunkShelf {
 public:
  void add(std::unique_ptr<storage::ImageReader> image);
  // Equal in all that says how its bytes are stored. Never true of an encrypted chunk, because each
  // has a nonce of its own.
  bool has(const storage::ChunkEntry &chunk) const;
  // Fills `stored` (chunk.stored_size bytes), if has().
  Result<> read(const storage::ChunkEntry &chunk, std::span<std::byte> stored) const;
  // The newest image; null: there is none.
  const storage::ImageReader *newest() const {
    return images_.empty() ? nullptr : images_.back().get();
  }

 private:
  struct Place {
    size_t image;
    u32 chunk;
  };
  const Place *find(const storage::ChunkEntry &chunk) const;

  std::vector<std::unique_ptr<storage::ImageReader>> images_;
  std::unordered_map<storage::ChunkAddress, Place, storage::ChunkAddressHash> places_;
};

}  // namespace ckpt::tools
