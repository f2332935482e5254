// SPDX-License-Identifier: Apache-2.0
//
// Hashes of the files that a program reads, computed while it still runs, so that its pause is not
// longer. A restore compares them if a file's time of modification differs.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>

#include "common/base/as_user.h"
#include "tools/dump/outer_pipes.h"

namespace ckpt::tools {

class FileHashes {
 public:
  FileHashes() = default;
  // `files`: what the program's paths begin with here (Target). The paths are the program's, so the
  // files are opened with the rights of its user.
  FileHashes(std::string files, Credentials user)
      : files_(std::move(files)), user_(std::move(user)) {}
  // Small files that are open for reading alone. The program may write the others until it stops.
  void add_open_files(const DescriptorTable &table);
  // The hash of a mapped file, or none if CRIU itself compares the file's build ID.
  std::optional<u64> add_mapped_file(const std::string &path);
  // The hash of a file that the program changes through a shared mapping. The kernel does not
  // always note the time of such changes, so the program has to be stopped. None for files of a
  // tmpfs, whose contents are in the image.
  std::optional<u64> of_shared_file(const std::string &path);
  // None if the file has been modified since it was added.
  std::optional<u64> find(const std::string &path, i64 mtime_ns) const;

 private:
  struct Entry {
    i64 mtime_ns;
    u64 hash;
  };
  std::optional<u64> add(const std::string &path);

  std::string files_;
  Credentials user_;
  std::map<std::string, Entry> by_path_;
  u64 bytes_left_ = 256u << 20;        // bounds what a dump reads
  u64 shared_bytes_left_ = 64u << 20;  // and while the program is stopped
};

}  // namespace ckpt::tools
