// SPDX-License-Identifier: Apache-2.0
//
// The one seam to the file system: the system calls that an image is written and read with, under
// their own names and with their own conventions (-1 and errno). Tests replace it to make any call
// fail; nothing else does. The functions below it retry, finish short counts and name the path.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::storage {

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int open(const char *path, int flags, mode_t mode = 0);
  virtual int openat(int folder, const char *name, int flags, mode_t mode = 0);
  virtual char *mkdtemp(char *path_template);
  virtual ssize_t pread(int fd, void *data, size_t size, off_t offset);
  virtual ssize_t pwrite(int fd, const void *data, size_t size, off_t offset);
  virtual int fsync(int fd);
  virtual int renameat2(const char *from, const char *to, unsigned flags);
  virtual int unlinkat(int folder, const char *name, int flags);
  virtual int fstat(int fd, struct stat *out);

  static FileSystem &real();
};

// Both retry EINTR and go on after a short count. `path` is for the message only.
Result<> write_at(FileSystem &fs, int fd, ByteView data, u64 offset, const std::string &path);
// Fails where the file ends before `size` bytes.
Result<> read_at(FileSystem &fs, int fd, void *data, size_t size, u64 offset,
                 const std::string &path);
Result<> sync_file(FileSystem &fs, int fd, const std::string &path);
Result<UniqueFd> open_folder(FileSystem &fs, const std::string &path);
// Makes the folder's entries (a rename in it) durable.
Result<> sync_folder(FileSystem &fs, const std::string &path);
// The names in an open folder, without "." and "..", in no order.
Result<std::vector<std::string>> list_folder(int folder, const std::string &path);

// "a/b/" -> {"a", "b"}; "b" -> {".", "b"}. The folder that holds `path`, and its name in it.
struct PathParts {
  std::string folder;
  std::string name;
};
PathParts split_path(std::string path);

}  // namespace ckpt::storage
