// SPDX-License-Identifier: Apache-2.0
//
// The files that an image's chunks lie in: its own chunks.ckpt and, for an increment, those of its
// parents, which lie beside it. All are opened at once, so that a missing parent is known before
// anything is read, and so that nothing is lost by one that is removed meanwhile.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/format/format.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

// Opens a regular file in the folder itself: no link leads elsewhere, no FIFO stops a reader.
Result<UniqueFd> open_inside(FileSystem &fs, int folder, const char *name, const std::string &path,
                             u64 &size);

class ChunkFiles {
 public:
  // `folder` is the image's, `path` its name for messages. `hold`: also keeps the parents from
  // being pruned (a shared lock on each folder) while this lives.
  Result<> open(FileSystem &fs, int folder, const std::string &path, const Index &index, bool hold);
  // The stored bytes of a chunk (entry.stored_size of them).
  Result<> read(FileSystem &fs, const ChunkEntry &entry, std::byte *to) const;
  const std::string &path(u32 file) const { return files_[file].path; }

 private:
  struct File {
    UniqueFd fd;
    std::string path;
    UniqueFd lock;
  };
  Result<File> open_parent(FileSystem &fs, int beside, const std::string &beside_path,
                           const ParentEntry &parent, bool hold);

  std::vector<File> files_;
};

}  // namespace ckpt::storage
