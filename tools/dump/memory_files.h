// SPDX-License-Identifier: Apache-2.0
//
// Memory files: files of a tmpfs, such as /dev/shm, that the program has mapped shared and can
// write, as shm_open(3), sem_open(3) and MPI make them. CRIU saves their names, not their contents
// (criu/mem.c: only mappings without a file, and memfds, count as shared memory). But a program
// that continues changes them, and a restart of the machine removes them. So the contents are part
// of the image; tools/restore/memory_files puts them back.
//
// Unlinked files without another name are CRIU's (its "ghost files").
#pragma once

#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "storage/write/image_writer.h"
#include "tools/manifest/image_manifest.h"
#include "tools/proc/file_writers.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class MemoryFiles {
 public:
  static MemoryFiles of(const Target &target);
  // Processes outside of the program that can change one of the files at any time: the program
  // cannot be restored without them.
  void check_not_shared_with_others(const Target &target, Reasons &reasons) const;
  // While the program is stopped. `links`: the names that this dump has given to unlinked files.
  Result<> save(storage::ImageWriter &image, const std::vector<ImageManifest::Link> &links);
  const std::vector<manifest::StoredFile> &described() const { return described_; }

 private:
  struct File {
    FileId id;
    UniqueFd fd;
    std::string name;                 // as /proc/PID/maps has it
    std::set<std::string> mapped_as;  // all such names
  };
  Result<> save(const File &f, storage::ImageWriter &image,
                const std::vector<ImageManifest::Link> &links);

  std::vector<File> files_;
  std::vector<manifest::StoredFile> described_;
};

}  // namespace ckpt::tools
