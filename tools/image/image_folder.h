// SPDX-License-Identifier: Apache-2.0
//
// The images of one folder, and which of them may be removed: an image that another one needs, that
// a dump is using, or that belongs to another user or to a job stays.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/manifest/saved_images.h"
#include "tools/reasons.h"

namespace ckpt::tools {

class ImageFolder {
 public:
  using Names = std::set<std::string>;

  static Result<ImageFolder> read(const std::string &folder, const storage::Key *key);

  const std::vector<SavedImage> &images() const { return images_; }
  const SavedImage *find(const std::string &name) const;

  // Why this image cannot be removed, whatever the others are; "": it can.
  std::string against(const std::string &name) const;
  // Whether a dump in progress has it as its parent.
  bool is_in_use(const std::string &name) const;
  // The images that need one of `gone` and are not among them, as reasons. One that cannot be read
  // may need any.
  Reasons needed_by_others(const Names &gone) const;
  // Whether an image that is not among `gone` needs this one, or cannot be read and may need it.
  bool is_needed(const std::string &name, const Names &gone) const;
  // `kept` with all images that these need, directly or through others.
  Names with_parents(Names kept) const;

  // Removes images, increments before their parents. Fails without removing anything if one is in
  // use, or if the folder has changed since it was read.
  Result<> remove(const Names &gone) const;
  // Of their own files.
  u64 bytes_of(const Names &names) const;

 private:
  std::string folder_;
  std::vector<SavedImage> images_;
  std::vector<std::string> state_;  // of the files of the images, when the folder was read
};

// The name of an image in its folder.
std::string name_of(const SavedImage &image);
// Whether the folder has images of a job's checkpoint, which belong together.
bool is_of_job(const std::string &folder);

}  // namespace ckpt::tools
