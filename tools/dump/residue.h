// SPDX-License-Identifier: Apache-2.0
//
// After a detach: residue of rings and drivers in a process that has an agent.
#pragma once

#include <sys/types.h>

#include "tools/reasons.h"

namespace ckpt::tools {

void check_residue(pid_t pid, Reasons &reasons);

}  // namespace ckpt::tools
