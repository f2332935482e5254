// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "tools/proc/process.h"

namespace ckpt::tools {

// Lets a tree run on that CRIU left stopped, but for those who were stopped before. Children first:
// then no parent finds a stopped child in its waitpid(WUNTRACED).
void continue_tree(pid_t root, const std::set<pid_t> &leave_stopped = {});
// SIGKILLs all of a tree.
void kill_tree(pid_t root);
// True for our own helpers, by the name of their executable: proxies, stems, tools.
bool is_own_helper(pid_t pid);

}  // namespace ckpt::tools
