// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/session_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "tools/restore/session_alias.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {

SessionPlace::SessionPlace(const std::string &folder)
    : name_(std::filesystem::path(folder).filename()) {
  if (!folder.starts_with('/') || !is_session_name(name_)) return;
  parent_ = open_folder_of_sessions(folder);
  // Another keeper may just remove it.
  for (int attempt = 0; parent_ && attempt < 100 && !hold(); attempt++) {
  }
}

// False: the folder was removed meanwhile. A live session's folder is that session's.
bool SessionPlace::hold() {
  ::mkdirat(parent_.get(), name_.c_str(), 0700);
  folder_.reset(
      ::openat(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_) return errno != ENOENT;
  if (::flock(folder_.get(), LOCK_SH | LOCK_NB) != 0) {
    folder_.reset();
    return true;
  }
  struct stat st {};
  return ::fstat(folder_.get(), &st) == 0 && st.st_nlink > 0;
}

SessionPlace::~SessionPlace() {
  if (folder_ && ::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0)
    ::unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR);
}

}  // namespace ckpt::tools
