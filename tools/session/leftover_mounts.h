// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ckpt::tools {

// What CRIU calls the folder in its working folder in which a restore as root mounts the control
// groups. A CRIU that was killed leaves it with its mounts (criu/cgroup.c, prepare_cgroup_sfd).
inline constexpr std::string_view kCgroupYard = ".criu.cgyard.";

// For root: unmounts all that is mounted in or below the folders of that name in `folder`, which
// only root can write to.
void unmount_cgroup_yards(const std::string &folder);

}  // namespace ckpt::tools
