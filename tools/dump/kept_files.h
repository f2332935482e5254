// SPDX-License-Identifier: Apache-2.0
//
// Small files on a disk that may vanish while the program does not run: a cleaner, a batch system
// or the next program of that kind removes them, and another machine never had them. The image has
// the contents of those
//
// - that the program has mapped shared and can write, such as the table of a JVM in
//   /tmp/hsperfdata_USER or the shared memory of a database;
// - that it has open beside such a file, FIFOs included, in the same folder of a folder for
// temporary files: an MPI
//   library has such a folder, which its mpirun removes as a whole.
//
// A restore makes those again that are missing, with their folders, and changes none. Memory files
// (memory_files.h) are not among them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/as_user.h"
#include "storage/write/image_writer.h"
#include "tools/dump/outer_pipes.h"
#include "tools/manifest/manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class KeptFiles {
 public:
  // `user`: with this user's rights files are opened by their names.
  KeptFiles(const Target &target, Credentials user, storage::ImageWriter &image)
      : target_(target), user_(std::move(user)), image_(image) {}
  // While the program is stopped.
  Result<> save(const DescriptorTable &table);
  // What the manifest says about these files.
  const std::vector<manifest::StoredFile> &described() const { return described_; }
  const std::vector<manifest::StoredName> &fifos() const { return fifos_; }

 private:
  Result<> save_mapped();
  Result<> save_open_beside(const DescriptorTable &table);
  Result<> save(const std::string &path, UniqueFd fd);
  void note_fifo(const std::string &path);

  const Target &target_;
  Credentials user_;
  storage::ImageWriter &image_;
  std::set<std::string> seen_, temporary_folders_;
  u64 left_ = 64u << 20;  // bytes: they are read while the program is stopped
  std::vector<manifest::StoredFile> described_;
  std::vector<manifest::StoredName> fifos_;
};

}  // namespace ckpt::tools
