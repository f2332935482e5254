// SPDX-License-Identifier: Apache-2.0
#include "storage/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>

namespace ckpt::storage {

int FileSystem::open(const char *path, int flags, mode_t mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}
int FileSystem::openat(int folder, const char *name, int flags, mode_t mode) {
  return ::openat(folder, name, flags | O_CLOEXEC, mode);
}
char *FileSystem::mkdtemp(char *path_template) { return ::mkdtemp(path_template); }
ssize_t FileSystem::pread(int fd, void *data, size_t size, off_t offset) {
  return ::pread(fd, data, size, offset);
}
ssize_t FileSystem::pwrite(int fd, const void *data, size_t size, off_t offset) {
  return ::pwrite(fd, data, size, offset);
}
int FileSystem::fsync(int fd) { return ::fsync(fd); }
int FileSystem::renameat2(const char *from, const char *to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}
int FileSystem::unlinkat(int folder, const char *name, int flags) {
  return ::unlinkat(folder, name, flags);
}
int FileSystem::fstat(int fd, struct stat *out) { return ::fstat(fd, out); }

FileSystem &FileSystem::real() {
  static FileSystem fs;
  return fs;
}

Result<> write_at(FileSystem &fs, int fd, ByteView data, u64 offset, const std::string &path) {
  while (!data.empty()) {
    ssize_t n = fs.pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return fail_errno("cannot write {}", path);
    data = data.subspan(static_cast<size_t>(n));
    offset += static_cast<u64>(n);
  }
  return {};
}

Result<> read_at(FileSystem &fs, int fd, void *data, size_t size, u64 offset,
                 const std::string &path) {
  auto *to = static_cast<std::byte *>(data);
  while (size > 0) {
    ssize_t n = fs.pread(fd, to, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read {} at byte {}", path, offset);
    if (n == 0) return fail("{} ends at byte {}, {} bytes too early", path, offset, size);
    to += n;
    size -= static_cast<size_t>(n);
    offset += static_cast<u64>(n);
  }
  return {};
}

Result<> sync_file(FileSystem &fs, int fd, const std::string &path) {
  // Not retried: after an error the kernel may mark the pages clean although they were not written,
  // and a second fsync() would then succeed (https://lwn.net/Articles/752063/).
  if (fs.fsync(fd) != 0) return fail_errno("cannot make {} durable (fsync)", path);
  return {};
}

Result<UniqueFd> open_folder(FileSystem &fs, const std::string &path) {
  UniqueFd fd(fs.open(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (!fd) return fail_errno("cannot open the folder {}", path);
  return fd;
}

Result<> sync_folder(FileSystem &fs, const std::string &path) {
  CKPT_TRY(UniqueFd fd, open_folder(fs, path));
  return sync_file(fs, fd.get(), path);
}

Result<std::vector<std::string>> list_folder(int folder, const std::string &path) {
  UniqueFd own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own) return fail_errno("cannot list {}", path);
  std::unique_ptr<DIR, int (*)(DIR *)> dir(::fdopendir(own.get()), ::closedir);
  if (!dir) return fail_errno("cannot list {}", path);
  own.release();  // closedir closes it
  std::vector<std::string> names;
  while (const dirent *e = ::readdir(dir.get())) {
    std::string name = e->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  return names;
}

PathParts split_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace ckpt::storage
