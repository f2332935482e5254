// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/kept_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <filesystem>
#include <optional>

#include "tools/dump/file_contents.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/file_writers.h"

namespace ckpt::tools {
namespace {

constexpr u64 kMostBytes = 16u << 20;

// The size of a file on a disk, or nothing if the file is of another kind.
std::optional<u64> size_on_disk(int fd) {
  struct stat st {};
  struct statfs fs {};
  bool on_disk = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0 &&
                 ::fstatfs(fd, &fs) == 0 && static_cast<long>(fs.f_type) != TMPFS_MAGIC;
  return on_disk ? std::optional(static_cast<u64>(st.st_size)) : std::nullopt;
}

// False: the name leads to another file.
bool is_file(const std::string &path, u64 inode, mode_t kind = S_IFREG) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 && (st.st_mode & S_IFMT) == kind && st.st_ino == inode;
}

// All users make files in a folder for temporary files, and each removes only its own (the sticky
// bit). Returns the folder in the outermost such folder that leads to the file, or nothing.
std::optional<std::string> temporary_folder(const std::vector<manifest::StoredFolder> &folders) {
  for (size_t i = 0; i + 1 < folders.size(); i++)
    if ((folders[i].mode & 01002) == 01002) return folders[i + 1].path + "/";
  return std::nullopt;
}

// As versions up to 0.1.0 read it: the innermost one.
manifest::FolderRights innermost(const std::vector<manifest::StoredFolder> &folders) {
  if (folders.empty()) return {0755, 0, 0};
  const manifest::StoredFolder &folder = folders.back();
  return {folder.mode, folder.uid, folder.gid};
}

}  // namespace

Result<> KeptFiles::save(const DescriptorTable &table) {
  CKPT_CHECK(save_mapped());
  return save_open_beside(table);
}

Result<> KeptFiles::save_mapped() {
  for (const Process &p : target_.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      if (!m.path.starts_with('/') || seen_.contains(m.path) || !can_write(p.pid, m)) continue;
      seen_.insert(m.path);
      if (is_file(target_.files + m.path, m.inode))
        CKPT_CHECK(save(m.path, open_mapped(p.pid, m, target_.files)));
    }
  return {};
}

Result<> KeptFiles::save_open_beside(const DescriptorTable &table) {
  AsUser as(user_);
  if (!as.active()) return {};
  auto is_beside = [this](const std::string &path) {
    return std::any_of(temporary_folders_.begin(), temporary_folders_.end(),
                       [&](const std::string &folder) { return path.starts_with(folder); });
  };
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors) {
      if (d.deleted || !is_beside(d.target) || !seen_.insert(d.target).second) continue;
      std::string here = target_.files + d.target;
      if (is_file(here, d.inode, S_IFIFO)) note_fifo(d.target);
      if (!is_file(here, d.inode)) continue;
      constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
      CKPT_CHECK(save(d.target, UniqueFd(::open(here.c_str(), kFlags))));
    }
  return {};
}

void KeptFiles::note_fifo(const std::string &path) {
  struct stat st {};
  if (::lstat((target_.files + path).c_str(), &st) != 0) return;
  fifos_.push_back(
      {path, st.st_mode & 0777, st.st_uid, st.st_gid, describe_folders(path, target_.files)});
}

Result<> KeptFiles::save(const std::string &path, UniqueFd fd) {
  std::optional<u64> size = fd ? size_on_disk(fd.get()) : std::nullopt;
  if (!size || *size > std::min(left_, kMostBytes)) return {};
  left_ -= *size;
  CKPT_TRY(manifest::StoredFile file,
           save_contents(image_, fmt::format("kept-files/{}", described_.size()), fd.get()));
  file.path = path;
  file.folders = describe_folders(path, target_.files);
  file.folder = innermost(file.folders);
  if (auto folder = temporary_folder(file.folders)) temporary_folders_.insert(*folder);
  described_.push_back(std::move(file));
  return {};
}

}  // namespace ckpt::tools
