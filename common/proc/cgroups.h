// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/cgroup (cgroups(7)): the control groups of a process.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ckpt::proc {

// The group in one hierarchy. A machine may have those of version 1 beside that of version 2.
struct Cgroup {
  std::string controllers;  // "cpu,cpuacct"; "": version 2
  std::string path;

  bool is_version_2() const { return controllers.empty(); }
  bool has(std::string_view controller) const;  // of version 1
};

// "4:memory:/a/b", or "0::/a/b" for version 2.
std::vector<Cgroup> parse_cgroups(std::string_view text);
Result<std::vector<Cgroup>> cgroups_of(pid_t pid);

}  // namespace ckpt::proc
