// SPDX-License-Identifier: Apache-2.0
//
// Copies an image without some of its parents. The chunks that it uses of these are copied into the
// new image, or referred to in other images that have them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "storage/io/destination.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {

class ChunkCopier {
 public:
  // `dropped`: the parents that the copy must not need.
  ChunkCopier(const ImageReader &from, std::vector<Uuid> dropped);

  // Chunks that are in the own file of `other`, an image named `name` in the same folder, are
  // referred to there and not copied.
  void may_use(const ImageReader &other, const std::string &name);

  // Writes the copy. The image's own chunks keep their offsets, because increments refer to them;
  // the copied ones follow. `key` is the image's key, or null.
  Result<> copy(Destination &to, const Key *key);

 private:
  u32 file_of(const ImageReader &other, const std::string &name);
  bool is_dropped(u32 file) const;
  ChunkEntry placed(const ChunkEntry &old) const;
  void place_chunks();
  void fill_tables(const std::vector<u32> &order, const std::vector<ChunkEntry> &placed);
  Result<> copy_chunks(Destination &to);

  const ImageReader &from_;
  const std::vector<Uuid> dropped_;
  Index out_;
  std::vector<u32> own_;  // numbers in the old table of the chunks in the new image's own file
  std::unordered_map<ChunkAddress, ChunkEntry, ChunkAddressHash> elsewhere_;
};

}  // namespace ckpt::storage
