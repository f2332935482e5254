// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "tools/net/repair_mode.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

// Continues processes that CRIU left stopped, except for `leave_stopped`, and takes their TCP
// connections out of repair mode. `tree`: parents before children. No parent sees that its children
// were stopped: not by SIGCHLD (stop_signals.h), and not by waitpid(WUNTRACED), because children
// are continued first.
void continue_processes(std::vector<Process> tree, const std::set<pid_t> &leave_stopped = {},
                        const ReuseOfSockets &reuse = {});
void continue_tree(pid_t root, const std::set<pid_t> &leave_stopped);
// Sends SIGKILL to all processes of a tree.
void kill_tree(pid_t root);
// True for proxies, stems and tools of ckpt, which are recognised by the name of their executable.
bool is_own_helper(pid_t pid);
// True for ckpt-restore and ckpt-start, which are also the stems of the programs that they restore.
bool runs_stems(pid_t pid);

}  // namespace ckpt::tools
