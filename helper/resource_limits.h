// SPDX-License-Identifier: Apache-2.0
//
// What a restored program gets of its caller's resource limits. Lowering one's own needs no right.
#pragma once

#include "common/base/result.h"
#include "common/proc/limits.h"

namespace ckpt::helper {

using proc::Limits;

// Takes all but that of open files, of which CRIU itself needs more than a program. Fails if this
// process may not have one of them: where `limits` are higher than its own.
Result<> take_limits(const Limits &limits);

// Lowers the limits of every process of this PID namespace to at most the hard ones of `most`. For
// processes with the same uids and gids as this one.
Result<> lower_limits_of_all(const Limits &most);

}  // namespace ckpt::helper
