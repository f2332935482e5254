// SPDX-License-Identifier: Apache-2.0
#include "tools/session/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>

#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// A folder without a lock file: its owner was killed, or is just about to create the file.
constexpr time_t kTimeToLock = 60;  // seconds

bool is_ours(const std::string &path, struct stat &st) {
  return ::lstat(path.c_str(), &st) == 0 && st.st_uid == ::geteuid();
}

bool remove_unlocked(const std::string &folder, const struct stat &st) {
  UniqueFd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return false;
  // O_NONBLOCK: a FIFO of that name must not make us wait for its writer.
  UniqueFd lock(::openat(dir.get(), kLockFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!lock)  // rmdir() removes an empty folder only
    return ::time(nullptr) - st.st_ctime > kTimeToLock && ::rmdir(folder.c_str()) == 0;
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
  std::error_code ec;
  fs::remove_all(folder, ec);
  return !ec;
}

bool remove_dangling(const std::string &link) {
  struct stat st {};
  return ::stat(link.c_str(), &st) != 0 && errno == ENOENT && ::unlink(link.c_str()) == 0;
}

}  // namespace

Result<UniqueFd> lock_folder(const std::string &folder) {
  std::string path = folder + "/" + kLockFile;
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock) return fail_errno("cannot create {}", path);
  // Between open() and flock() a remover may take the lock.
  struct stat st {};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(lock.get(), &st) != 0 ||
      st.st_nlink == 0)
    return fail("{} was removed by another process", folder);
  return lock;
}

std::vector<std::string> remove_leftovers() {
  std::vector<std::string> folders, links, removed;
  std::error_code ec;
  std::string prefix = fmt::format("ckpt-{}-", ::getuid());
  for (const fs::directory_entry &e : fs::directory_iterator(runtime_folder(), ec))
    if (e.path().filename().string().starts_with(prefix))
      (e.is_symlink(ec) ? links : folders).push_back(e.path().string());
  struct stat st {};
  for (const std::string &f : folders)
    if (is_ours(f, st) && S_ISDIR(st.st_mode) && remove_unlocked(f, st)) removed.push_back(f);
  for (const std::string &l : links)  // they lead to the folders
    if (is_ours(l, st) && remove_dangling(l)) removed.push_back(l);
  return removed;
}

}  // namespace ckpt::tools
