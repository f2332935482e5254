// SPDX-License-Identifier: Apache-2.0
//
// The files that hold an image's chunks: its own chunks.ckpt and those of its parents, which are in
// the same folder. All of them are opened at once, so that a missing parent is found before
// anything is read, and so that a parent that is removed later can still be read.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/format/format.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

// Opens the regular file `name` in `folder` and sets `size`. Fails for a link or a FIFO. `path` is
// only for messages.
// Refuses an open file or folder of an image that another user but root owns or can change.
Result<> check_own(FileSystem &fs, int fd, const std::string &path);

Result<UniqueFd> open_inside(FileSystem &fs, int folder, const char *name, const std::string &path,
                             u64 &size);

class ChunkFiles {
 public:
  // `folder` is the image's folder, `path` its name for messages. `hold` takes a shared lock on
  // each folder, so that nothing is pruned while this object exists.
  Result<> open(FileSystem &fs, int folder, const std::string &path, const Index &index, bool hold);
  // Reads the entry.stored_size stored bytes of a chunk into `to`.
  Result<> read(FileSystem &fs, const ChunkEntry &entry, std::byte *to) const;
  Result<> check_own(FileSystem &fs) const;
  const std::string &path(u32 file) const { return files_[file].path; }

 private:
  struct File {
    UniqueFd fd;
    std::string path;
    UniqueFd lock;
  };
  Result<File> open_own(FileSystem &fs, int folder, const std::string &path, const Index &index,
                        bool hold);
  Result<> open_parents(FileSystem &fs, int folder, const std::string &path, const Index &index,
                        bool hold);
  Result<File> open_parent(FileSystem &fs, int beside, const std::string &beside_path,
                           const ParentEntry &parent, bool hold);

  std::vector<File> files_;
};

}  // namespace ckpt::storage
