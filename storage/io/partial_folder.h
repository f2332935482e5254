// SPDX-License-Identifier: Apache-2.0
//
// A folder that appears under its name only when it is complete.
//
// The problem: a checkpoint may be killed, run out of disk space, or lose power at any moment.
// Afterwards the path of the image must show a complete image (the new one, or the one that it was
// to replace), never a part of one.
//
// The steps, for the image `job.img`:
//
//   mkdir  job.img.partial-a1B2c3        under a lock (flock) that shows that its writer is alive
//   write  …/chunks.ckpt, …/index.ckpt   and fsync both
//   fsync  job.img.partial-a1B2c3        so that the names of both files are durable
//   rename job.img.partial-a1B2c3 to job.img
//   fsync  the parent folder             so that the rename is durable
//
// A rename is atomic, and so is the exchange of two names (rename(2), RENAME_EXCHANGE), with which
// an existing image is replaced; the old image then has the partial name and is removed. fsync() of
// a file does not make its directory entry durable (fsync(2)), hence the fsync() of the
// folders. If the last fsync() fails, the rename is undone.
//
// A killed writer leaves its partial folder behind. The kernel releases a lock with the process
// that holds it (flock(2)), so the next writer in the same folder, and `ckpt-image clean`, remove
// each partial folder that they can lock. They remove only folders of their own user, follow no
// links, and delete only the two files of an image, because other users may write to the same
// parent folder (/var/tmp).
//
// Cost: four fsync() calls for an image, and no temporary copy of any data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

// Whether `name` is that of a partial folder, for example "job.img.partial-a1B2c3".
bool is_partial_name(std::string_view name);

// The paths of all images in `folder`, except partial ones.
Result<std::vector<std::string>> list_images(FileSystem &fs, const std::string &folder);

// Removes the partial folders in `folder` that have lost their writers, and returns their paths.
Result<std::vector<std::string>> remove_stale(FileSystem &fs, const std::string &folder);

// Removes the image at `path`. Readers see either the whole image or none.
Result<> remove_published(FileSystem &fs, const std::string &path);

class PartialFolder {
 public:
  // Fails if `final_path` exists, unless `overwrite` is set and it is an image or an empty folder.
  static Result<std::unique_ptr<PartialFolder>> create(const std::string &final_path,
                                                       bool overwrite, FileSystem &fs);
  // Removes the folder and the files from create_file(), unless it was published.
  ~PartialFolder();

  // Creates a file with mode 0600, open for writing.
  Result<UniqueFd> create_file(const char *name);
  // Renames the folder to its final name and makes that durable. On an error the final name remains
  // what it was.
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
