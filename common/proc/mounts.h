// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/mountinfo (proc_pid_mountinfo(5)): the mounts that a process sees.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace ckpt::proc {

struct Mount {
  int id = 0;
  std::string point;    // a path; blanks and the like as they are
  std::string type;     // "ext4", "cgroup2"
  std::string options;  // of the file system: "rw,memory"
};

// In the order in which they were mounted; malformed lines are left out.
std::vector<Mount> parse_mounts(std::string_view mountinfo);
std::vector<Mount> mounts_of(pid_t pid);

}  // namespace ckpt::proc
