// SPDX-License-Identifier: Apache-2.0
//
// CRIU leaves a tree stopped by SIGSTOP (criu(8), --leave-stopped). The kernel then tells each
// parent by SIGCHLD that a child has stopped (sigaction(2), CLD_STOPPED). Most programs ignore it,
// but script(1) stops itself when the program that it runs has stopped, and then nothing continues
// it. The program has not asked for this stop, so it must not see it.
#pragma once

#include <set>
#include <vector>

#include "tools/proc/process.h"

namespace ckpt::tools {

// Removes these signals from a stopped tree (parents before children). Processes in `leave_stopped`
// were stopped by the program or its user, so their parents keep the signal.
void discard_stop_signals(const std::vector<Process> &tree, const std::set<pid_t> &leave_stopped);

}  // namespace ckpt::tools
