// SPDX-License-Identifier: Apache-2.0
#include "tools/session/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "common/proc/file.h"
#include "tools/session/leftover_mounts.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// A folder without a lock file: its owner was killed, or is just about to create the file.
constexpr time_t kTimeToLock = 60;  // seconds
// The lock file before it is locked.
const char kNewLockFile[] = "lock.new";

bool is_ours(const std::string &path, struct stat &st) {
  return ::lstat(path.c_str(), &st) == 0 && st.st_uid == ::geteuid();
}

// As the mounts have it.
std::string path_of(int folder) {
  std::error_code ec;
  return fs::read_symlink(proc::fd_path(proc::kSelf, folder), ec);
}

// The lock goes last, so that whatever happens meanwhile the next remover finds it.
void remove_files(int folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const fs::directory_entry &e :
       fs::directory_iterator(proc::fd_path(proc::kSelf, folder), ec))
    if (e.path().filename() != kLockFile) names.push_back(e.path().filename());
  unmount_cgroup_yards(path_of(folder));
  fs::remove_all(proc::fd_path(proc::kSelf, folder) + "/" + kSuppliedFolder, ec);
  for (const std::string &name : names)
    ::unlinkat(folder, name.c_str(), name.starts_with(kCgroupYard) ? AT_REMOVEDIR : 0);
  ::unlinkat(folder, kLockFile, 0);
}

// A tool that looks for left-overs has it locked for a moment.
bool lock_soon(int folder) {
  using namespace std::chrono_literals;
  for (int n = 0; n < 100; n++, std::this_thread::sleep_for(10ms))
    if (::flock(folder, LOCK_EX | LOCK_NB) == 0) return true;
  return false;
}

bool remove_dangling(const std::string &link) {
  struct stat st {};
  return ::stat(link.c_str(), &st) != 0 && errno == ENOENT && ::unlink(link.c_str()) == 0;
}

}  // namespace

bool remove_dead_folder(int parent, const std::string &name) {
  UniqueFd dir(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!dir || ::fstat(dir.get(), &st) != 0 || st.st_uid != ::geteuid()) return false;
  if (::flock(dir.get(), LOCK_EX | LOCK_NB) != 0) return false;
  UniqueFd lock(::openat(dir.get(), kLockFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // Without a lock, only an empty folder is removed.
  if (!lock && ::time(nullptr) - st.st_ctime <= kTimeToLock) return false;
  if (!lock) ::unlinkat(dir.get(), kNewLockFile, 0);
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (lock) remove_files(dir.get());
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
}

Result<FolderLock> lock_folder(const std::string &folder) {
  FolderLock lock{UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), {}};
  if (!lock.folder || !lock_soon(lock.folder.get())) return fail_errno("cannot lock {}", folder);
  // A lock file that is not locked means a dead owner, so it gets its name when it is locked.
  std::string path = folder + "/" + kLockFile, unlocked = folder + "/" + kNewLockFile;
  lock.file.reset(::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock.file) return fail_errno("cannot create {}", unlocked);
  if (::flock(lock.file.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), path.c_str()) != 0)
    return fail_errno("cannot lock {}", path);
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
    if (remove_dead_folder(AT_FDCWD, f)) removed.push_back(f);
  for (const std::string &l : links)  // they lead to the folders
    if (is_ours(l, st) && remove_dangling(l)) removed.push_back(l);
  return removed;
}

}  // namespace ckpt::tools
