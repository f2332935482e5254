// SPDX-License-Identifier: Apache-2.0
//
// The resource limits of a process, as /proc/PID/limits shows them to every user. prlimit(2) would
// need SYS_RESOURCE for a process of another user; lowering one's own limits needs no right.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ckpt::helper {

using Limits = std::array<rlimit, RLIM_NLIMITS>;  // by the number of the resource

// No value: not the text of such a file, or one without a limit.
std::optional<Limits> parse_limits(std::string_view text);
Result<Limits> limits_of(pid_t pid);

// Takes all but that of open files, of which CRIU itself needs more than a program. Fails if this
// process may not have one of them: where `limits` are higher than its own.
Result<> take_limits(const Limits &limits);

// Lowers the limits of every process of this PID namespace to at most the hard ones of `most`. For
// processes with the same uids and gids as this one.
Result<> lower_limits_of_all(const Limits &most);

}  // namespace ckpt::helper
