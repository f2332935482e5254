// SPDX-License-Identifier: Apache-2.0
//
// CRIU stops a thread in the middle of a system call. The kernel restarts most calls (compel's
// get_regs() does what the kernel does after a signal without a handler), but poll(2),
// epoll_wait(2) and others return EINTR. A program that expects no signal may end then, as `tail
// -f` does. If such a call waits without a time limit, or until a point in time, it can be
// restarted: in the dumped program, before it is continued, and in its image.
#pragma once

#include <vector>

#include "tools/criu/criu_file.h"
#include "tools/proc/held_processes.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

// In stopped processes. A signal with a handler that arrives before they run makes the call return
// EINTR, as always.
void restart_interrupted_waits(const std::vector<Process> &processes,
                               const HeldProcesses &held = {});
// In one of CRIU's core-N.img: a thread.
void restart_interrupted_wait(ProtoMessage &core);

}  // namespace ckpt::tools
