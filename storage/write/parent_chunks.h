// SPDX-License-Identifier: Apache-2.0
//
// The image that another one is an increment on, as its writer sees it: which chunks are there
// already, and what the new index calls the files that hold them.
#pragma once

#include <memory>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

class ParentChunks {
 public:
  // `path` is the parent's folder; it must lie in the folder in which `final_path` will, and may
  // not be it. Held until this goes. Its key, or that it has none, must be the new image's.
  static Result<std::unique_ptr<ParentChunks>> open(const std::string &path,
                                                    const std::string &final_path,
                                                    const ReadOptions &options);

  const ImageReader &image() const { return *image_; }
  const Index &index() const { return image_->index(); }
  // Its chunk table, each chunk with the number of its file among files(): 1 is the parent's own.
  std::vector<ChunkEntry> chunks() const;
  const std::vector<ParentEntry> &files() const { return files_; }

 private:
  std::unique_ptr<ImageReader> image_;
  std::vector<ParentEntry> files_;
};

// Removes the files that no chunk lies in, and renumbers the rest.
void drop_unused_parents(Index &index);

}  // namespace ckpt::storage
