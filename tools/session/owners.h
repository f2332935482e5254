// SPDX-License-Identifier: Apache-2.0
//
// Whose processes a program consists of. A tool that runs as root dumps, stops and ends processes
// for a keeper that another user has started, and whose files and socket that user can change at
// will. Only the kernel's answers count: the program's processes are descendants of the keeper, and
// have its uid. So root's tool does nothing to a process that the keeper's user could not do.
//
// A keeper of root is trusted: it may have a program of any user (`ckpt-run setpriv --reuid …`).
#pragma once

#include "common/base/result.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

struct Target;

// Refuses processes of another user than the keeper's, as a setuid program is, and a root that is
// not below the keeper.
Result<> check_owners(const ProcessTable &table, const Target &target);

}  // namespace ckpt::tools
