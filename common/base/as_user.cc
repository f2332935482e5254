// SPDX-License-Identifier: Apache-2.0
#include "common/base/as_user.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

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

// With these a thread opens, changes or makes files that its uid alone could not (capabilities(7),
// CAP_FS_MASK of the kernel).
constexpr std::array kForFiles{CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
                               CAP_FOWNER, CAP_FSETID,       CAP_LINUX_IMMUTABLE,
                               CAP_MKNOD,  CAP_MAC_OVERRIDE};

u64 for_files() {
  u64 set = 0;
  for (int c : kForFiles) set |= u64{1} << c;
  return set;
}

// Of this thread alone; the effective set of what it is permitted.
class EffectiveSet {
 public:
  EffectiveSet() : read_(::syscall(SYS_capget, &header_, data_.data()) == 0) {}
  u64 get() const { return read_ ? u64{data_[1].effective} << 32 | data_[0].effective : 0; }
  bool set(u64 effective) {
    data_[0].effective = static_cast<u32>(effective);
    data_[1].effective = static_cast<u32>(effective >> 32);
    return read_ && ::syscall(SYS_capset, &header_, data_.data()) == 0;
  }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data_{};
  bool read_;
};

}  // namespace

AsUser::AsUser(const Credentials &user) : before_{file_system_uid(), file_system_gid(), {}} {
  if (user.uid == 0) return;
  EffectiveSet effective;
  capabilities_ = effective.get() & for_files();
  if (::geteuid() == 0) become(user);
  // setfsuid(2) has dropped some of them, but not if securebits forbid it.
  if (capabilities_) active_ = EffectiveSet().set(effective.get() & ~for_files()) && active_;
}

void AsUser::become(const Credentials &user) {
  before_.groups = own_groups();
  changed_ = true;
  active_ = set_groups(user.groups);
  ::setfsgid(user.gid);
  ::setfsuid(user.uid);
  active_ = active_ && file_system_gid() == user.gid && file_system_uid() == user.uid;
}

AsUser::~AsUser() {
  if (changed_) {
    ::setfsuid(before_.uid);
    ::setfsgid(before_.gid);
    (void)set_groups(before_.groups);
  }
  EffectiveSet effective;
  if (capabilities_) (void)effective.set(effective.get() | capabilities_);
}

}  // namespace ckpt
