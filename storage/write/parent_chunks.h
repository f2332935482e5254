// SPDX-License-Identifier: Apache-2.0
//
// The parent image as the writer of an increment needs it: the chunks that exist already, and how
// the new index names the files that hold them.
#pragma once

#include <memory>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

class ParentChunks {
 public:
  // `path` is the parent's folder. It must be in the folder that will contain `final_path`, and
  // must not be `final_path` itself. The parent is protected from pruning while this object exists.
  // Both images must have the same key, or none.
  static Result<std::unique_ptr<ParentChunks>> open(const std::string &path,
                                                    const std::string &final_path,
                                                    const ReadOptions &options);

  const ImageReader &image() const { return *image_; }
  const Index &index() const { return image_->index(); }
  // The parent's chunk table. ChunkEntry::file counts in files(): 1 is the parent's own file.
  std::vector<ChunkEntry> chunks() const;
  const std::vector<ParentEntry> &files() const { return files_; }

 private:
  std::unique_ptr<ImageReader> image_;
  std::vector<ParentEntry> files_;
};

// Removes the parents that hold none of the chunks, and renumbers the others.
void drop_unused_parents(Index &index);

// Fails if a readable image in the same folder is an increment on `image`, because replacing
// `image` would destroy that one.
Result<> check_not_a_parent(const std::string &image, const ReadOptions &options = {});

}  // namespace ckpt::storage
