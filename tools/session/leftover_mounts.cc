// SPDX-License-Identifier: Apache-2.0
#include "tools/session/leftover_mounts.h"

#include <sys/mount.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>

#include "common/proc/file.h"
#include "common/proc/mounts.h"

namespace ckpt::tools {
void unmount_cgroup_yards(const std::string &folder) {
  if (::geteuid() != 0) return;
  std::string prefix = fmt::format("{}/{}", folder, kCgroupYard);
  std::vector<proc::Mount> mounts = proc::mounts_of(proc::kSelf);
  std::ranges::reverse(mounts);
  for (const proc::Mount &m : mounts)
    if (m.point.starts_with(prefix)) ::umount2(m.point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

}  // namespace ckpt::tools
