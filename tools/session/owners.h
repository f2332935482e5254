// SPDX-License-Identifier: Apache-2.0
//
// Checks to which user the processes of a program belong. A tool that runs as root dumps, stops and
// ends processes for a keeper of another user, and that user can change the keeper's files and
// socket at any time. So only the kernel is trusted: the program's processes are descendants of the
// keeper, and all their threads have its uid. Root's tool then does nothing to a process that the
// keeper's user could not do; for CRIU, criu/rights.h asks for more.
//
// A keeper of root is trusted: it may have a program of any user (`ckpt-run setpriv --reuid …`).
#pragma once

#include "common/base/result.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

struct Target;

// Refuses processes with another user than the keeper's, such as setuid programs, and a root
// process that is not a descendant of the keeper.
Result<> check_owners(const ProcessTable &table, const Target &target);

}  // namespace ckpt::tools
