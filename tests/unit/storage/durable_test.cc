// SPDX-License-Identifier: Apache-2.0
//
// A power cut must not damage an image: before the rename, all its files and the folder with their
// names are synced; after it, the folder with the image's name.
#include <fcntl.h>

#include <map>
#include <mutex>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

// Records which files and folders a power cut could lose, by the paths that they were opened with.
class PowerCut : public FileSystem {
 public:
  int open(const char *path, int flags, mode_t mode) override {
    return remember(FileSystem::open(path, flags, mode), path);
  }
  int openat(int folder, const char *name, int flags, mode_t mode) override {
    std::lock_guard lock(mutex_);
    if (flags & O_CREAT) lost_[paths_[folder]] = true;
    return remember_locked(FileSystem::openat(folder, name, flags, mode), name);
  }
  ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) override {
    std::lock_guard lock(mutex_);
    lost_[paths_[fd]] = true;
    return FileSystem::pwrite(fd, data, size, offset);
  }
  int fsync(int fd) override {
    std::lock_guard lock(mutex_);
    lost_[paths_[fd]] = false;
    return FileSystem::fsync(fd);
  }
  int renameat2(const char *from, const char *to, unsigned flags) override {
    std::lock_guard lock(mutex_);
    if (!std::string_view(to).ends_with("/image")) return FileSystem::renameat2(from, to, flags);
    lost_at_rename = lost();
    lost_.clear();
    lost_[split_path(to).folder] = true;
    return FileSystem::renameat2(from, to, flags);
  }

  std::vector<std::string> lost() const {
    std::vector<std::string> out;
    for (const auto &[path, is_lost] : lost_)
      if (is_lost) out.push_back(path);
    return out;
  }
  std::vector<std::string> lost_at_rename = {"never renamed"};

 private:
  int remember(int fd, const char *path) {
    std::lock_guard lock(mutex_);
    return remember_locked(fd, path);
  }
  int remember_locked(int fd, const char *path) {
    if (fd >= 0) paths_[fd] = path;
    return fd;
  }
  std::mutex mutex_;
  std::map<int, std::string> paths_;
  std::map<std::string, bool> lost_;
};

TEST_CASE("everything is synced before the rename, and the rename after it") {
  for (bool overwrite : {false, true}) {
    TempFolder tmp;
    if (overwrite) must(write_image(tmp / "image", {{"old", zeros(1)}}));
    PowerCut fs;
    must(write_image(tmp / "image", {{"new", smooth_bytes(3 * kChunkBytes, 1)}},
                     {.overwrite = overwrite, .file_system = &fs}));
    CHECK(fs.lost_at_rename == std::vector<std::string>{});
    CHECK(fs.lost() == std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace ckpt::test
