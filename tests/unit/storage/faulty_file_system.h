// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>

#include "storage/io/file_system.h"

namespace ckpt::test {

using namespace storage;

// The real file system, except that call number `fail_at` (from 0) of those that modify files
// fails, or kills the process. With Fault::Short, every write is short.
class FaultyFileSystem : public FileSystem {
 public:
  enum class Fault { Fail, Kill, Short };
  FaultyFileSystem(int fail_at, Fault fault, int error = EIO)
      : fail_at_(fail_at), fault_(fault), error_(error) {}

  int openat(int folder, const char *name, int flags, mode_t mode) override {
    return strike("openat") ? -1 : FileSystem::openat(folder, name, flags, mode);
  }
  char *mkdtemp(char *name) override {
    return strike("mkdtemp") ? nullptr : FileSystem::mkdtemp(name);
  }
  ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) override {
    if (fault_ == Fault::Short) size = std::max<size_t>(1, size / 3);
    return strike("pwrite") ? -1 : FileSystem::pwrite(fd, data, size, offset);
  }
  int fsync(int fd) override { return strike("fsync") ? -1 : FileSystem::fsync(fd); }
  int renameat2(const char *from, const char *to, unsigned flags) override {
    return strike("renameat2") ? -1 : FileSystem::renameat2(from, to, flags);
  }
  int unlinkat(int folder, const char *name, int flags) override {
    return strike("unlinkat") ? -1 : FileSystem::unlinkat(folder, name, flags);
  }

  // The name of the call that failed, or "".
  const std::string &struck() const { return struck_; }

 private:
  bool strike(const char *call) {
    if (fault_ == Fault::Short || calls_++ != fail_at_) return false;
    if (fault_ == Fault::Kill) ::kill(::getpid(), SIGKILL);
    struck_ = call;
    errno = error_;
    return true;
  }

  const int fail_at_;
  const Fault fault_;
  const int error_;
  std::atomic<int> calls_ = 0;
  std::string struck_;
};

}  // namespace ckpt::test
