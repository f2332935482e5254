// SPDX-License-Identifier: Apache-2.0
//
// Carried files (manifest/carried_files.h), as ckpt-dump --with-files writes them: the executable,
// libraries, and other files that the program has mapped or open for reading alone, up to a size.
//
// Not among them are files that a process can change now, those that execute with other rights
// (set-user-ID, set-group-ID), and those that the program's user may not read.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/as_user.h"
#include "storage/write/image_writer.h"
#include "tools/dump/outer_pipes.h"
#include "tools/manifest/manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

inline constexpr u64 kCarriedDataMiB = 64;  // the default of --with-files-up-to

class CarriedFiles {
 public:
  struct Choice {
    bool all = false;                        // otherwise only those that a restore has supplied
    u64 data_bytes = kCarriedDataMiB << 20;  // the largest file without code
  };

  // `user`: with this user's rights files are opened by their names.
  CarriedFiles(const Target &target, Credentials user, Choice choice, storage::ImageWriter &image)
      : target_(target), user_(std::move(user)), choice_(choice), image_(image) {}
  // Those that are not in the image yet. Before the program is paused, because it may be much; and
  // once more when it is stopped.
  Result<> save(const DescriptorTable &table);
  // Those that are as they were when they were saved, and that the image describes otherwise too.
  void describe(manifest::Manifest &m) const;

 private:
  struct Candidate {
    u64 inode = 0;
    bool has_code = false;
  };
  using Candidates = std::map<std::string, Candidate>;

  Candidates candidates(const DescriptorTable &table) const;
  void leave_out_written(const DescriptorTable &table, Candidates &files) const;
  Result<> save(const std::string &path, const Candidate &file);
  bool is_wanted(const std::string &path, const Candidate &file, const struct stat &st) const;

  const Target &target_;
  Credentials user_;
  Choice choice_;
  storage::ImageWriter &image_;
  std::set<std::string> seen_;
  std::vector<manifest::CarriedFile> saved_;
};

}  // namespace ckpt::tools
