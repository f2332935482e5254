// SPDX-License-Identifier: Apache-2.0
//
// A namespace of a program, in which CRIU is to run with more rights than the program has. The
// program may enter another namespace at any moment, so it is opened once, and the opened
// descriptor is checked and entered.
#pragma once

#include <sys/types.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::helper {

// `name`: as in /proc/PID/ns. Fails if the namespace belongs to another user namespace than ours
// (ioctl_ns(2)): an ordinary user has made it, and decides which file a path leads to there.
Result<UniqueFd> open_namespace(pid_t process, const char *name);

// As namespace_inode() of a process in it.
u64 inode_of(const UniqueFd &opened);

}  // namespace ckpt::helper
