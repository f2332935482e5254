// SPDX-License-Identifier: Apache-2.0
#include "storage/io/partial_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "storage/format/format.h"

namespace ckpt::storage {
namespace {

constexpr std::string_view kInfix = ".partial-";
constexpr std::string_view kSuffix = "XXXXXX";
// A folder that is empty for less than this may have a writer that has not locked it yet.
constexpr time_t kTimeToLock = 60;  // seconds

// Removes the two files of an image and then the folder. A folder that contains anything else
// remains.
Result<> remove_image(FileSystem &fs, int folder, const std::string &path) {
  for (const char *name : {kIndexFile, kChunksFile})
    if (fs.unlinkat(folder, name, 0) != 0 && errno != ENOENT)
      return fail_errno("cannot remove {}/{}", path, name);
  if (fs.unlinkat(AT_FDCWD, path.c_str(), AT_REMOVEDIR) != 0)
    return fail_errno("cannot remove {}", path);
  return {};
}

// Refuses links and other users' folders.
Result<UniqueFd> open_own_folder(FileSystem &fs, const std::string &path) {
  UniqueFd fd(fs.open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat st;
  if (!fd || fs.fstat(fd.get(), &st) != 0) return fail_errno("cannot open the folder {}", path);
  if (st.st_uid != ::geteuid()) return fail("{} belongs to another user", path);
  return fd;
}

Result<> remove_image(FileSystem &fs, const std::string &path) {
  CKPT_TRY(UniqueFd folder, open_own_folder(fs, path));
  return remove_image(fs, folder.get(), path);
}

bool try_lock(int folder) { return ::flock(folder, LOCK_EX | LOCK_NB) == 0; }

bool is_new(int folder, const std::string &path) {
  Result<std::vector<std::string>> names = list_folder(folder, path);
  struct stat st {};
  return names && names->empty() && ::fstat(folder, &st) == 0 &&
         ::time(nullptr) - st.st_ctime < kTimeToLock;
}

// Only an image may be replaced: a mistyped name must not delete a home folder.
Result<> check_replaceable(FileSystem &fs, const std::string &path, bool overwrite) {
  if (!overwrite)
    return fail_with_hint(path + " already exists",
                          "choose another name, or replace it with --overwrite");
  CKPT_TRY(UniqueFd folder, open_folder(fs, path));
  CKPT_TRY(std::vector<std::string> names, list_folder(folder.get(), path));
  bool ours = std::ranges::all_of(
      names, [](const std::string &n) { return n == kIndexFile || n == kChunksFile; });
  if (!ours)
    return fail_with_hint(path + " contains files that do not belong to an image: not replaced",
                          "choose another name");
  return {};
}

// Some file systems cannot exchange two folders. This must be known before anything is dumped.
Result<> check_exchange(FileSystem &fs, const std::string &path, std::string other) {
  if (!fs.mkdtemp(other.data())) return fail_errno("cannot create {}", other);
  int rc = fs.renameat2(path.c_str(), other.c_str(), RENAME_EXCHANGE);
  if (rc == 0) rc = fs.renameat2(path.c_str(), other.c_str(), RENAME_EXCHANGE);
  Result<> done;
  if (rc != 0) done = fail_errno("cannot replace images on this file system (rename of {})", path);
  fs.unlinkat(AT_FDCWD, other.c_str(), AT_REMOVEDIR);
  return done;
}

bool exists(const std::string &path) {
  struct stat st;
  return ::lstat(path.c_str(), &st) == 0;
}

}  // namespace

bool is_partial_name(std::string_view name) {
  size_t tail = kInfix.size() + kSuffix.size();
  return name.size() > tail && name.substr(name.size() - tail).starts_with(kInfix);
}

Result<std::vector<std::string>> list_images(FileSystem &fs, const std::string &folder) {
  CKPT_TRY(UniqueFd fd, open_folder(fs, folder));
  CKPT_TRY(std::vector<std::string> names, list_folder(fd.get(), folder));
  std::vector<std::string> images;
  for (const std::string &name : names) {
    std::string path = folder + "/" + name;
    if (!is_partial_name(name) && exists(path + "/" + kIndexFile)) images.push_back(path);
  }
  return images;
}

namespace {

bool is_partial_of(std::string_view image, std::string_view entry) {
  return !image.empty() && is_partial_name(entry) && entry.starts_with(image) &&
         entry.size() == image.size() + kInfix.size() + kSuffix.size();
}

// A new folder that is empty is left alone, unless it belongs to `image`, the name that the caller
// is about to write: two writers of one name at a time would be a mistake.
Result<std::vector<std::string>> remove_stale_before(FileSystem &fs, const std::string &folder,
                                                     std::string_view image) {
  CKPT_TRY(UniqueFd fd, open_folder(fs, folder));
  CKPT_TRY(std::vector<std::string> names, list_folder(fd.get(), folder));
  std::vector<std::string> removed;
  for (const std::string &name : names) {
    if (!is_partial_name(name)) continue;
    std::string path = folder + "/" + name;
    Result<UniqueFd> stale = open_own_folder(fs, path);
    if (!stale || (!is_partial_of(image, name) && is_new(stale->get(), path))) continue;
    if (try_lock(stale->get()) && remove_image(fs, stale->get(), path)) removed.push_back(path);
  }
  return removed;
}

}  // namespace

Result<std::vector<std::string>> remove_stale(FileSystem &fs, const std::string &folder) {
  return remove_stale_before(fs, folder, {});
}

Result<> remove_published(FileSystem &fs, const std::string &path) {
  std::string aside = path + std::string(kInfix) + std::string(kSuffix);
  if (!fs.mkdtemp(aside.data())) return fail_errno("cannot create {}", aside);
  // rename() replaces an empty folder.
  if (fs.renameat2(path.c_str(), aside.c_str(), 0) != 0) {
    Failure why = fail_errno("cannot remove {}", path);
    fs.unlinkat(AT_FDCWD, aside.c_str(), AT_REMOVEDIR);
    return why;
  }
  CKPT_CHECK(sync_folder(fs, split_path(path).folder));
  return remove_image(fs, aside);
}

Result<std::unique_ptr<PartialFolder>> PartialFolder::create(const std::string &final_path,
                                                             bool overwrite, FileSystem &fs) {
  PathParts parts = split_path(final_path);
  if (parts.name.empty() || parts.name == "." || parts.name == ".." || parts.name == "/")
    return fail("'{}' cannot be the name of an image", final_path);
  std::unique_ptr<PartialFolder> out(new PartialFolder(parts.folder + "/" + parts.name, fs));
  out->replaces_ = exists(out->final_path_);
  if (out->replaces_) CKPT_CHECK(check_replaceable(fs, final_path, overwrite));
  (void)remove_stale_before(fs, parts.folder, parts.name);
  CKPT_CHECK(out->make_and_lock());
  if (out->replaces_) CKPT_CHECK(check_exchange(fs, out->path_, out->name_template()));
  return out;
}

std::string PartialFolder::name_template() const {
  return final_path_ + std::string(kInfix) + std::string(kSuffix);
}

Result<> PartialFolder::make_and_lock() {
  std::string name = name_template();
  if (!fs_.mkdtemp(name.data())) return fail_errno("cannot create {}", name);
  path_ = name;
  CKPT_TRY(lock_, open_folder(fs_, path_));
  // Without locks (some network file systems), nothing is removed after a crash.
  if (!try_lock(lock_.get())) log::debug("cannot lock {}", path_);
  return {};
}

PartialFolder::~PartialFolder() {
  if (path_.empty()) return;
  if (auto ok = remove_image(fs_, path_); !ok) log::warn("{}", ok.error().what);
}

Result<UniqueFd> PartialFolder::create_file(const char *name) {
  UniqueFd fd(fs_.openat(lock_.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("cannot create {}", file(name));
  return fd;
}

Result<> PartialFolder::publish() {
  CKPT_CHECK(sync_file(fs_, lock_.get(), path_));
  return replaces_ ? exchange_old() : rename_new();
}

Result<> PartialFolder::rename_new() {
  int rc = fs_.renameat2(path_.c_str(), final_path_.c_str(), RENAME_NOREPLACE);
  // Not every file system supports the flag. A plain rename never replaces a folder with files.
  if (rc != 0 && (errno == EINVAL || errno == ENOSYS) && !exists(final_path_))
    rc = fs_.renameat2(path_.c_str(), final_path_.c_str(), 0);
  if (rc != 0) return fail_errno("cannot rename {} to {}", path_, final_path_);
  if (auto ok = sync_folder(fs_, split_path(final_path_).folder); !ok) {
    // The image may not be durable, so it must not appear: back to the name that the destructor
    // removes.
    if (fs_.renameat2(final_path_.c_str(), path_.c_str(), 0) != 0) path_.clear();
    return ok;
  }
  path_.clear();
  return {};
}

Result<> PartialFolder::exchange_old() {
  if (fs_.renameat2(path_.c_str(), final_path_.c_str(), RENAME_EXCHANGE) != 0)
    return fail_errno("cannot exchange {} and {}", path_, final_path_);
  if (auto ok = sync_folder(fs_, split_path(final_path_).folder); !ok) {
    if (fs_.renameat2(path_.c_str(), final_path_.c_str(), RENAME_EXCHANGE) != 0) path_.clear();
    return ok;
  }
  if (auto ok = remove_image(fs_, path_); !ok)
    log::warn("the replaced image could not be removed: {}", ok.error().what);
  path_.clear();
  return {};
}

}  // namespace ckpt::storage
