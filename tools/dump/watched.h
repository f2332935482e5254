// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// What descriptors of the program watch, and no restore could watch again: an epoll descriptor that
// was inherited from another process may watch a file that only that process has, and an unlinked
// file gets another inode.
void check_watched(const Target &target, Closables &reasons);

}  // namespace ckpt::tools
