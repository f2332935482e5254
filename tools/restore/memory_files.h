// SPDX-License-Identifier: Apache-2.0
//
// Puts the contents of memory files (tools/dump/memory_files.h) back before CRIU opens them, and
// makes kept files and FIFOs (tools/dump/kept_files.h) again that are missing.
#pragma once

#include <string>
#include <vector>

#include "common/base/as_user.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// The reasons against it: no tmpfs, too little free space, a file of another user, or a process
// that can change the file, such as the original program.
void check_memory_files(const std::vector<ImageManifest::StoredFile> &files, Reasons &reasons);

// Kept files that are missing, and whose folders cannot be made.
void check_kept_files(const ImageManifest &m, Reasons &reasons);

class RestoredMemoryFiles {
 public:
  RestoredMemoryFiles() = default;
  RestoredMemoryFiles(const RestoredMemoryFiles &) = delete;
  // Removes the names that it has made, unless the program runs.
  ~RestoredMemoryFiles();

  // A file that exists keeps its inode: other names of it stay valid.
  Result<> write(const ImageManifest &m, const storage::ImageReader &image);
  void program_runs() { made_.clear(); }

 private:
  Result<UniqueFd> open(const ImageManifest::StoredFile &f);
  Result<> write(const ImageManifest::StoredFile &f, const storage::ImageReader &image);
  Result<> make(const ImageManifest::StoredFolder &f);
  Result<> make_fifo(const ImageManifest::StoredName &f);
  Result<> add_names(const ImageManifest::StoredFile &f);

  std::vector<std::pair<std::string, Credentials>> made_;
};

}  // namespace ckpt::tools
