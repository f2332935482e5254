// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/session_alias.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "tools/session/leftovers.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

std::string link_at(int folder, const std::string &name) {
  char target[PATH_MAX];
  ssize_t n = ::readlinkat(folder, name.c_str(), target, sizeof target);
  return n < 0 ? std::string() : std::string(target, static_cast<size_t>(n));
}

}  // namespace

// The name comes from the environment of the program. Root follows no link to the folder, because
// the user could let it lead to any other one.
UniqueFd open_folder_of_sessions(const std::string &session_folder) {
  open_how how{.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
               .mode = 0,
               .resolve = ::geteuid() == 0 ? u64{RESOLVE_NO_SYMLINKS} : 0};
  std::string parent = std::filesystem::path(session_folder).parent_path();
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, parent.c_str(), &how, sizeof how)));
  struct stat st {};
  bool trusted = fd && ::fstat(fd.get(), &st) == 0 && (st.st_uid == ::geteuid() || st.st_uid == 0);
  return trusted ? std::move(fd) : UniqueFd();
}

SessionAlias::SessionAlias(const std::string &old_folder, const std::string &new_folder)
    : name_(std::filesystem::path(old_folder).filename()), new_(new_folder) {
  if (!old_folder.starts_with('/') || old_folder == new_ || !is_session_name(name_)) return;
  parent_ = open_folder_of_sessions(old_folder);
  if (!parent_) return;
  remove_dead_folder(parent_.get(), name_);  // of a keeper that was killed
  linked_ = ::symlinkat(new_.c_str(), parent_.get(), name_.c_str()) == 0;
  if (!linked_)
    log::debug("cannot create the link {} to {}: {}", old_folder, new_, strerror(errno));
}

void SessionAlias::renew() {
  if (!linked_) return;
  if (::symlinkat(new_.c_str(), parent_.get(), name_.c_str()) != 0)
    ::utimensat(parent_.get(), name_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

SessionAlias::~SessionAlias() {
  if (linked_ && link_at(parent_.get(), name_) == new_) ::unlinkat(parent_.get(), name_.c_str(), 0);
}

}  // namespace ckpt::tools
