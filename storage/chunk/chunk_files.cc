// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk/chunk_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/printable.h"
#include "storage/format/index.h"
#include "storage/format/stream_name.h"
#include "storage/format/uuid.h"

namespace ckpt::storage {
namespace {

// Accepts the header of any version from `first` to `last`.
Result<> check_header(FileSystem &fs, int fd, const Uuid &uuid, u32 first, u32 last,
                      const std::string &path) {
  std::byte found[kChunksHeaderBytes];
  CKPT_CHECK(read_at(fs, fd, found, sizeof found, 0, path));
  for (u32 version = first; version <= last; ++version)
    if (std::ranges::equal(found, encode_chunks_header(uuid, version))) return {};
  return fail("{} has a damaged header, or belongs to another image", path);
}

Result<> hold_folder(int folder, const std::string &path) {
  if (::flock(folder, LOCK_SH | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK)
    return fail_with_hint(path + " is being pruned", "try again, or choose another parent");
  return {};  // this file system has no locks
}

}  // namespace

Result<UniqueFd> open_inside(FileSystem &fs, int folder, const char *name, const std::string &path,
                             u64 &size) {
  UniqueFd fd(fs.openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot open {}", path);
  struct stat st;
  if (fs.fstat(fd.get(), &st) != 0) return fail_errno("cannot stat {}", path);
  if (!S_ISREG(st.st_mode)) return fail("{} is not a regular file", path);
  size = static_cast<u64>(st.st_size);
  return fd;
}

Result<> check_own(FileSystem &fs, int fd, const std::string &path) {
  struct stat st {};
  if (fs.fstat(fd, &st) != 0) return fail_errno("cannot stat {}", path);
  constexpr const char *kHint =
      "a restored program runs with your rights; if you trust the image's owner, restore it with "
      "ckpt-restore --trust-image";
  if (st.st_uid != ::geteuid() && st.st_uid != 0)
    return fail_with_hint(fmt::format("{} belongs to uid {}", path, st.st_uid), kHint);
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    return fail_with_hint(
        fmt::format("other users may change {} (mode {:04o})", path, st.st_mode & 07777u), kHint);
  return {};
}

Result<> ChunkFiles::check_own(FileSystem &fs) const {
  for (const File &f : files_) CKPT_CHECK(storage::check_own(fs, f.fd.get(), f.path));
  return {};
}

Result<> ChunkFiles::open(FileSystem &fs, int folder, const std::string &path, const Index &index,
                          bool hold) {
  CKPT_TRY(File own, open_own(fs, folder, path, index, hold));
  files_.push_back(std::move(own));
  return index.parents.empty() ? Result<>{} : open_parents(fs, folder, path, index, hold);
}

Result<ChunkFiles::File> ChunkFiles::open_own(FileSystem &fs, int folder, const std::string &path,
                                              const Index &index, bool hold) {
  File own{{}, path + "/" + kChunksFile, {}};
  u64 size = 0;
  CKPT_TRY(own.fd, open_inside(fs, folder, kChunksFile, own.path, size));
  u64 want = index.chunks_file_size;
  if (size > want)
    return fail("{} has {} bytes, but the index says {}: damaged", own.path, size, want);
  if (size < want) return fail("{} is truncated: {} bytes of {}", own.path, size, want);
  CKPT_CHECK(check_header(fs, own.fd.get(), index.uuid, index.version, index.version, own.path));
  if (!hold) return own;
  own.lock.reset(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  CKPT_CHECK(hold_folder(own.lock.get(), path));
  return own;
}

Result<> ChunkFiles::open_parents(FileSystem &fs, int folder, const std::string &path,
                                  const Index &index, bool hold) {
  // Not derived from `path`, which may name a link to the image.
  UniqueFd beside(fs.openat(folder, "..", O_RDONLY | O_DIRECTORY));
  if (!beside) return fail_errno("cannot open the folder that contains {}", path);
  for (const ParentEntry &p : index.parents) {
    Result<File> file = open_parent(fs, beside.get(), split_path(path).folder, p, hold);
    if (!file)
      return fail_with_hint(fmt::format("{} is an increment on the image '{}' ({}): {}", path,
                                        printable(p.name), uuid_text(p.uuid), file.error().what),
                            "put that image back into the same folder, under that name");
    files_.push_back(std::move(*file));
  }
  return {};
}

Result<ChunkFiles::File> ChunkFiles::open_parent(FileSystem &fs, int beside,
                                                 const std::string &beside_path,
                                                 const ParentEntry &parent, bool hold) {
  std::string folder_path = beside_path + "/" + printable(parent.name);
  UniqueFd folder(fs.openat(beside, parent.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (!folder) return fail_errno("cannot open {}", folder_path);
  if (hold) CKPT_CHECK(hold_folder(folder.get(), folder_path));
  File out{{}, folder_path + "/" + kChunksFile, {}};
  u64 size = 0;
  CKPT_TRY(out.fd, open_inside(fs, folder.get(), kChunksFile, out.path, size));
  // A parent may have an older version than its child, or a newer one after `ckpt-image prune`.
  CKPT_CHECK(check_header(fs, out.fd.get(), parent.uuid, kFirstVersion, kFormatVersion, out.path));
  if (size < parent.size)
    return fail("{} is truncated: {} bytes, but the first {} are needed", out.path, size,
                parent.size);
  if (hold) out.lock = std::move(folder);
  return out;
}

Result<> ChunkFiles::read(FileSystem &fs, const ChunkEntry &entry, std::byte *to) const {
  return read_at(fs, files_[entry.file].fd.get(), to, entry.stored_size, entry.offset, kChunksFile);
}

}  // namespace ckpt::storage
