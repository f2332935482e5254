// SPDX-License-Identifier: Apache-2.0
//
// A folder that becomes visible whole or not at all: filled as NAME.partial-XXXXXX beside NAME,
// synced, and renamed (or exchanged with the image it replaces) in one step. A lock on the folder
// says that its writer lives; what dead writers left is removed by the next one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

// "job.img.partial-a1B2c3": what a writer has not finished, or a remover.
bool is_partial_name(std::string_view name);

// Removes an image that has its name, in one step as far as readers can see.
Result<> remove_published(FileSystem &fs, const std::string &path);

class PartialFolder {
 public:
  // Refuses a `final_path` that exists, unless `overwrite` and it is an image or an empty folder.
  static Result<std::unique_ptr<PartialFolder>> create(const std::string &final_path,
                                                       bool overwrite, FileSystem &fs);
  // Not published: removed, with what create_file() made in it.
  ~PartialFolder();

  // A new file of the owner's alone, for writing.
  Result<UniqueFd> create_file(const char *name);
  // Renames the folder to its final name and makes that durable. On an error the final name is
  // what it was before.
  Result<> publish();

  const std::string &path() const { return path_; }

 private:
  PartialFolder(std::string final_path, FileSystem &fs)
      : final_path_(std::move(final_path)), fs_(fs) {}
  std::string name_template() const;
  Result<> make_and_lock();
  Result<> rename_new();
  Result<> exchange_old();
  std::string file(const char *name) const { return path_ + "/" + name; }

  std::string final_path_;
  std::string path_;  // empty: nothing to remove
  UniqueFd lock_;
  bool replaces_ = false;
  FileSystem &fs_;
};

}  // namespace ckpt::storage
