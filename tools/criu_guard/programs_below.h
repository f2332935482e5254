// SPDX-License-Identifier: Apache-2.0
//
// The programs of ckpt in a process tree that CRIU is going to dump as a whole: their keepers are
// in the tree, too.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "common/base/result.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Without asking anything of them: they may be frozen.
bool has_programs_below(pid_t root);

// Fails, with all reasons, if one of them cannot be restored with the tree. `root` is the tree's
// first process; waits for programs that are being started, unless `check_cancelled` fails.
Result<std::vector<Target>> programs_below(pid_t root,
                                           const std::function<Result<>()> &check_cancelled);

// What is left of devices in processes with an agent. All of them are stopped.
Result<> check_residue_below(pid_t root);

}  // namespace ckpt::tools
