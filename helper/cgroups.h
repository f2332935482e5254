// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "common/base/result.h"

namespace ckpt::helper {

// Moves this process into the control groups of another one, in each hierarchy where it is in
// another group. A group may belong to a user (systemd's user@UID.service): to enter it, this
// process needs DAC_OVERRIDE, which is in force only meanwhile.
Result<> join_cgroups_of(pid_t pid);

}  // namespace ckpt::helper
