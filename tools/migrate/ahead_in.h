// SPDX-License-Identifier: Apache-2.0
//
// What arrives of an image before it is complete. Its index, which comes last, says what each piece
// is: only a piece with the place, size and checksum of a chunk counts.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "storage/format/format.h"
#include "storage/io/destination.h"
#include "tools/migrate/messages.h"

namespace ckpt::tools {

class AheadIn {
 public:
  // `path`: of the image.
  static Result<AheadIn> begin(const std::string &path);
  Result<> take(const Piece &piece);
  bool has(const storage::ChunkEntry &chunk) const;
  u64 bytes() const { return bytes_; }
  // With these pieces; to be called once.
  std::unique_ptr<storage::FolderDestination> destination() { return std::move(to_); }

 private:
  struct Arrived {
    u32 bytes = 0;
    u64 checksum = 0;
  };
  std::unique_ptr<storage::FolderDestination> to_;
  std::unordered_map<u64, Arrived> arrived_;  // by offset
  u64 bytes_ = 0;
};

}  // namespace ckpt::tools
