// SPDX-License-Identifier: Apache-2.0
#include "common/base/as_user.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ckpt {
namespace {

// The system call changes this thread; the C library's function would change all of them.
bool set_groups(const std::vector<gid_t> &groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

std::vector<gid_t> own_groups() {
  int n = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(n > 0 ? static_cast<size_t>(n) : 0);
  if (::getgroups(n, groups.data()) < 0) groups.clear();
  return groups;
}

// setfsuid(2) and setfsgid(2) report no error, but the ID before; an impossible one changes
// nothing.
uid_t file_system_uid() { return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))); }
gid_t file_system_gid() { return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))); }

}  // namespace

AsUser::AsUser(const Credentials &user) : before_{file_system_uid(), file_system_gid(), {}} {
  if (::geteuid() != 0 || user.uid == 0) return;
  before_.groups = own_groups();
  changed_ = true;
  active_ = set_groups(user.groups);
  ::setfsgid(user.gid);
  ::setfsuid(user.uid);
  active_ = active_ && file_system_gid() == user.gid && file_system_uid() == user.uid;
}

AsUser::~AsUser() {
  if (!changed_) return;
  ::setfsuid(before_.uid);
  ::setfsgid(before_.gid);
  (void)set_groups(before_.groups);
}

}  // namespace ckpt
