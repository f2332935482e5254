// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/memory_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>

#include "common/base/as_user.h"
#include "common/base/reversed.h"
#include "common/base/units.h"
#include "tools/proc/file_writers.h"
#include "tools/restore/stored_contents.h"

namespace ckpt::tools {
namespace {

using StoredFile = ImageManifest::StoredFile;
using StoredFolder = ImageManifest::StoredFolder;
using StoredName = ImageManifest::StoredName;

template <class T>
Credentials owner_of(const T &f) {
  return {f.uid, f.gid, {}};
}

bool is_tmpfs(const std::string &folder) {
  struct statfs fs {};
  return ::statfs(folder.c_str(), &fs) == 0 && static_cast<long>(fs.f_type) == TMPFS_MAGIC;
}

std::optional<struct stat> stat_of(const std::string &path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 ? std::optional(st) : std::nullopt;
}

// The folder of the file, or the first folder above it that exists: a restore makes the others.
std::string folder_of(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  while (folder.has_relative_path() && !stat_of(folder)) folder = folder.parent_path();
  return folder.string();
}

// Why the missing folders of the file cannot be made. Images of earlier versions do not name all.
std::string refused_folders(const StoredName &f) {
  std::string wanted = std::filesystem::path(f.path).parent_path(), above = folder_of(f.path);
  if (above == wanted) return {};
  auto missing = std::ranges::find_if(f.folders, [&](const StoredFolder &d) {
    return std::filesystem::path(d.path).parent_path() == above;
  });
  if (missing == f.folders.end())
    return fmt::format("the folder of the program's file {} is missing: make the folder", f.path);
  AsUser as(owner_of(*missing));
  if (as.active() && ::faccessat(AT_FDCWD, above.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return fmt::format(
      "the folder of the program's file {} is missing, and user {} cannot make {}: make that "
      "folder for this user",
      f.path, missing->uid, missing->path);
}

// A name that leads to another file than the program's cannot be given to the program's again.
std::string refused_names(const StoredFile &f, const std::optional<struct stat> &now) {
  for (const std::string &name : f.names)
    if (auto other = stat_of(name); other && (!now || other->st_ino != now->st_ino))
      return fmt::format(
          "{} is no longer the program's shared memory of that name: remove the file if no program "
          "uses it",
          name);
  return {};
}

std::string refused(const StoredFile &f) {
  if (!is_tmpfs(folder_of(f.path)))
    return fmt::format("the program has shared memory in {}, where no tmpfs is mounted: mount one",
                       f.path);
  std::optional<struct stat> now = stat_of(f.path);
  if (now && !S_ISREG(now->st_mode))
    return fmt::format("{}, the program's shared memory, is not a regular file here: remove it",
                       f.path);
  if (now && now->st_uid != f.uid)
    return fmt::format(
        "{}, the program's shared memory, belongs to user {} here instead of user {}: remove it",
        f.path, now->st_uid, f.uid);
  return refused_names(f, now);
}

void check_room(const std::vector<StoredFile> &files, Reasons &reasons) {
  std::map<std::string, i64> more;  // by folder
  for (const StoredFile &f : files) {
    std::optional<struct stat> now = stat_of(f.path);
    more[folder_of(f.path)] += static_cast<i64>(data_bytes(f)) - (now ? now->st_blocks * 512 : 0);
  }
  for (auto [folder, bytes] : more) {
    struct statvfs fs {};
    if (::statvfs(folder.c_str(), &fs) != 0) continue;
    if (bytes > static_cast<i64>(fs.f_bavail * fs.f_frsize))
      reasons.push_back(fmt::format(
          "the program's shared memory needs {} more in {}, where {} are free: make room "
          "there, or enlarge it (mount -o remount,size=)",
          mebibytes_needed(static_cast<u64>(bytes)), folder, mebibytes(fs.f_bavail * fs.f_frsize)));
  }
}

void check_writers(const std::vector<StoredFile> &files, Reasons &reasons) {
  std::map<FileId, std::string> paths;
  std::set<FileId> ids;
  for (const StoredFile &f : files)
    if (auto now = stat_of(f.path)) {
      ids.insert({now->st_dev, now->st_ino});
      paths[{now->st_dev, now->st_ino}] = f.path;
    }
  for (const FileWriter &w : writers_of(ids, {::getpid()}))
    reasons.push_back(fmt::format(
        "{}, the program's shared memory, is in use by {}, which may be the original or a copy of "
        "the program: end it first",
        paths[w.file], name_of(w.process)));
}

}  // namespace

void check_kept_files(const ImageManifest &m, Reasons &reasons) {
  auto check = [&](const StoredName &f) {
    if (std::string why = refused_folders(f); !why.empty()) reasons.push_back(std::move(why));
  };
  std::ranges::for_each(m.kept_files, check);
  std::ranges::for_each(m.kept_fifos, check);
}

void check_memory_files(const std::vector<StoredFile> &files, Reasons &reasons) {
  for (const StoredFile &f : files) {
    if (std::string why = refused(f); !why.empty()) reasons.push_back(std::move(why));
    if (std::string why = refused_folders(f); !why.empty()) reasons.push_back(std::move(why));
  }
  check_room(files, reasons);
  check_writers(files, reasons);
}

RestoredMemoryFiles::~RestoredMemoryFiles() {
  for (const auto &[path, owner] : reversed(made_))
    if (AsUser as(owner); as.active()) ::remove(path.c_str());
}

Result<> RestoredMemoryFiles::write(const ImageManifest &m, const storage::ImageReader &image) {
  for (const StoredFile &f : m.memory_files)
    if (Result<> done = write(f, image); !done)
      return Failure(
          std::move(done.error()).in(fmt::format("cannot restore the shared memory {}", f.path)));
  for (const StoredFile &f : m.kept_files)
    if (Result<> done = stat_of(f.path) ? Result<>{} : write(f, image); !done)
      return Failure(std::move(done.error()).in(fmt::format("cannot make {} again", f.path)));
  for (const StoredName &f : m.kept_fifos)
    if (Result<> done = stat_of(f.path) ? Result<>{} : make_fifo(f); !done)
      return Failure(std::move(done.error()).in(fmt::format("cannot make {} again", f.path)));
  return {};
}

Result<> RestoredMemoryFiles::make(const StoredFolder &f) {
  if (stat_of(f.path)) return {};
  AsUser as(owner_of(f));
  if (!as.active()) return fail("cannot act as user {}", f.uid);
  if (::mkdir(f.path.c_str(), 0700) < 0) return fail_errno("cannot make the folder {}", f.path);
  made_.emplace_back(f.path, owner_of(f));
  if (::chmod(f.path.c_str(), f.mode) < 0) return fail_errno("cannot set the rights of {}", f.path);
  return {};
}

Result<> RestoredMemoryFiles::make_fifo(const StoredName &f) {
  for (const StoredFolder &folder : f.folders) CKPT_CHECK(make(folder));
  AsUser as(owner_of(f));
  if (!as.active()) return fail("cannot act as user {}", f.uid);
  if (::mkfifo(f.path.c_str(), 0600) < 0) return fail_errno("cannot make it");
  made_.emplace_back(f.path, owner_of(f));
  return ::chmod(f.path.c_str(), f.mode) == 0 ? Result<>() : fail_errno("cannot set its rights");
}

Result<UniqueFd> RestoredMemoryFiles::open(const StoredFile &f) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd fd(::open(f.path.c_str(), kFlags));
  if (!fd && errno == ENOENT) {
    fd.reset(::open(f.path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
    if (!fd) return fail_errno("cannot make it");
    made_.emplace_back(f.path, owner_of(f));
    if (::fchown(fd.get(), f.uid, f.gid) < 0)
      return fail_errno("cannot give it to user {}, group {}", f.uid, f.gid);
  }
  if (!fd) return fail_errno("cannot open it");
  if (::fchmod(fd.get(), f.mode) < 0) return fail_errno("cannot set its rights");  // CRIU compares
  return fd;
}

Result<> RestoredMemoryFiles::write(const StoredFile &f, const storage::ImageReader &image) {
  for (const StoredFolder &folder : f.folders) CKPT_CHECK(make(folder));
  // The owner of the file may have made the folder's name lead elsewhere meanwhile.
  AsUser as(owner_of(f));
  if (!as.active()) return fail("cannot access it as user {}", f.uid);
  CKPT_TRY(UniqueFd fd, open(f));
  if (::ftruncate(fd.get(), static_cast<off_t>(f.size)) < 0)
    return fail_errno("cannot set its size");
  CKPT_CHECK(write_contents(fd.get(), f, image));
  return add_names(f);
}

Result<> RestoredMemoryFiles::add_names(const StoredFile &f) {
  for (const std::string &name : f.names) {
    if (::link(f.path.c_str(), name.c_str()) == 0)
      made_.emplace_back(name, owner_of(f));
    else if (errno != EEXIST)
      return fail_errno("cannot give it the name {}", name);
  }
  return {};
}

}  // namespace ckpt::tools
