// SPDX-License-Identifier: Apache-2.0
//
// The system calls that images are written and read with, under their own names and with their own
// conventions (-1 and errno). Tests replace this class to make any call fail; nothing else does.
// The functions below it retry, continue after short counts and name the path in errors.
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
  // `fs`, or the real file system if `fs` is null.
  static FileSystem &or_real(FileSystem *fs) { return fs ? *fs : real(); }
};

// Both retry after EINTR and continue after a short count. `path` is only for the message.
Result<> write_at(FileSystem &fs, int fd, ByteView data, u64 offset, const std::string &path);
// Fails if the file ends before `size` bytes.
Result<> read_at(FileSystem &fs, int fd, void *data, size_t size, u64 offset,
                 const std::string &path);
Result<> sync_file(FileSystem &fs, int fd, const std::string &path);
Result<UniqueFd> open_folder(FileSystem &fs, const std::string &path);
// Makes the folder's entries durable, for example after a rename.
Result<> sync_folder(FileSystem &fs, const std::string &path);
// The names in an open folder except "." and "..", in no particular order.
Result<std::vector<std::string>> list_folder(int folder, const std::string &path);

// The folder that contains `path`, and its name there: "a/b/" -> {"a", "b"}; "b" -> {".", "b"}.
struct PathParts {
  std::string folder;
  std::string name;
};
PathParts split_path(std::string path);

}  // namespace ckpt::storage
