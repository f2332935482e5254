// SPDX-License-Identifier: Apache-2.0
#include "tools/image/image_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/printable.h"
#include "storage/io/partial_folder.h"
#include "storage/ops/removal_lock.h"
#include "tools/session/end_mark.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using storage::FileSystem;
using State = SavedImage::State;

bool exists(const std::string &path) {
  struct stat file {};
  return ::lstat(path.c_str(), &file) == 0;
}

bool is_readable(const SavedImage &image) {
  return image.state != State::Damaged && image.state != State::Locked &&
         image.state != State::Incomplete;
}

bool needs(const SavedImage &image, const SavedImage &other) {
  return std::ranges::any_of(image.parents, [&](const storage::ParentEntry &p) {
    return p.name == name_of(other) || (is_readable(other) && p.uuid == other.uuid);
  });
}

// All images of a chain have the same key or none, so that an image with another key needs none of
// those that can be read.
bool may_need(const SavedImage &image, const SavedImage &other) {
  return image.state == State::Damaged || (image.state == State::Locked && !is_readable(other));
}

// That images were added, replaced or removed shows in their index files.
std::vector<std::string> state_of(const std::string &folder) {
  std::vector<std::string> all;
  Result<std::vector<std::string>> paths = storage::list_images(FileSystem::real(), folder);
  for (const std::string &path : paths ? *paths : std::vector<std::string>{}) {
    struct stat s {};
    if (::lstat((path + "/" + storage::kIndexFile).c_str(), &s) == 0)
      all.push_back(
          fmt::format("{} {} {}.{}", path, s.st_ino, s.st_mtim.tv_sec, s.st_mtim.tv_nsec));
  }
  std::ranges::sort(all);
  return all;
}

// Not an error for a folder that cannot be read: its removal will say it.
bool has_other_files(const std::string &path) {
  Result<UniqueFd> folder = storage::open_folder(FileSystem::real(), path);
  if (!folder) return false;
  Result<std::vector<std::string>> names = storage::list_folder(folder->get(), path);
  return names && std::ranges::any_of(*names, [](const std::string &n) {
           return n != storage::kIndexFile && n != storage::kChunksFile;
         });
}

}  // namespace

std::string name_of(const SavedImage &image) { return storage::split_path(image.path).name; }

// tools/job/job_folder.h
bool is_of_job(const std::string &folder) {
  return exists(folder + "/../key") && exists(folder + "/../members");
}

Result<ImageFolder> ImageFolder::read(const std::string &folder, const storage::Key *key) {
  ImageFolder out;
  out.folder_ = folder;
  out.state_ = state_of(folder);
  CKPT_TRY(out.images_, images_in(folder, key, Thoroughness::Index));
  return out;
}

const SavedImage *ImageFolder::find(const std::string &name) const {
  auto at = std::ranges::find_if(images_, [&](const SavedImage &i) { return name_of(i) == name; });
  return at == images_.end() ? nullptr : &*at;
}

std::string ImageFolder::against(const std::string &name) const {
  const std::string path = folder_ + "/" + name;
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) return fmt::format("there is no {}", path);
  if (S_ISLNK(s.st_mode)) return fmt::format("{} is a link, not an image", path);
  const SavedImage *image = find(name);
  if (!image) return fmt::format("{} is not an image: it has no index.ckpt", path);
  if (image->state == State::Incomplete)
    return fmt::format(
        "{} is incomplete: a dump is writing it, or has left it for ckpt-image clean", path);
  if (s.st_uid != ::geteuid())
    return fmt::format("{} belongs to {}, and only this user may remove it", path,
                       user_name(s.st_uid));
  if (has_other_files(path))
    return fmt::format("{} contains files that do not belong to an image", path);
  return "";
}

bool ImageFolder::is_in_use(const std::string &name) const {
  return !storage::lock_for_removal(FileSystem::real(), folder_ + "/" + name);
}

Reasons ImageFolder::needed_by_others(const Names &gone) const {
  Reasons reasons;
  for (const SavedImage &other : images_) {
    if (gone.contains(name_of(other))) continue;
    for (const std::string &name : gone) {
      const SavedImage *image = find(name);
      if (image && needs(other, *image))
        reasons.push_back(fmt::format("{} is needed by the increment {}", name, name_of(other)));
      else if (image && may_need(other, *image))
        reasons.push_back(
            fmt::format("{} cannot be read, and may need {}: {}", name_of(other), name, other.why));
    }
  }
  return reasons;
}

bool ImageFolder::is_needed(const std::string &name, const Names &gone) const {
  const SavedImage *image = find(name);
  return image && std::ranges::any_of(images_, [&](const SavedImage &other) {
           return &other != image && !gone.contains(name_of(other)) &&
                  (needs(other, *image) || may_need(other, *image));
         });
}

ImageFolder::Names ImageFolder::with_parents(Names kept) const {
  for (size_t before = 0; before != kept.size();) {
    before = kept.size();
    for (const SavedImage &child : images_)
      if (kept.contains(name_of(child)))
        for (const SavedImage &parent : images_)
          if (needs(child, parent)) kept.insert(name_of(parent));
  }
  return kept;
}

Result<> ImageFolder::remove(const Names &gone) const {
  FileSystem &fs = FileSystem::real();
  std::vector<const SavedImage *> order;
  for (const std::string &name : gone)
    if (const SavedImage *image = find(name)) order.push_back(image);
  std::ranges::stable_sort(order, std::ranges::greater{}, &SavedImage::generation);
  std::vector<UniqueFd> locks;
  for (const SavedImage *image : order) {
    CKPT_TRY(UniqueFd lock, storage::lock_for_removal(fs, image->path));
    locks.push_back(std::move(lock));
  }
  if (state_of(folder_) != state_)
    return fail_with_hint(
        fmt::format("images in {} have changed meanwhile: nothing was removed", folder_),
        "run the command again");
  for (const SavedImage *image : order) {
    CKPT_CHECK(storage::remove_published(fs, image->path));
    remove_mark(image->path);
  }
  return {};
}

u64 ImageFolder::bytes_of(const Names &names) const {
  u64 sum = 0;
  for (const std::string &name : names)
    if (const SavedImage *image = find(name)) sum += image->disk_bytes;
  return sum;
}

}  // namespace ckpt::tools
