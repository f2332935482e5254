// SPDX-License-Identifier: Apache-2.0
//
// The resource limits of a process, as /proc/PID/limits (proc_pid_limits(5)) shows them to every
// user. prlimit(2) would need SYS_RESOURCE for a process of another user.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <optional>
#include <string_view>

#include "common/base/result.h"

namespace ckpt::proc {

using Limits = std::array<rlimit, RLIM_NLIMITS>;  // by the number of the resource

// "Max file size": the name that the file has for a resource.
std::string_view name_of_limit(int resource);

// No value: not the text of such a file, or one without a limit.
std::optional<Limits> parse_limits(std::string_view text);
Result<Limits> limits_of(pid_t pid);

}  // namespace ckpt::proc
