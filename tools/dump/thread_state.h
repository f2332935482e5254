// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Threads that have their own descriptors, working folder or namespaces (unshare(2), setns(2)).
// CRIU saves those of the main thread alone, and gives them to all threads.
void check_thread_state(const Target &target, Reasons &reasons);
// Threads whose scheduling policy CRIU cannot set again.
void check_scheduling(const Target &target, Reasons &reasons);
// POSIX timers on clocks that CRIU cannot find again.
void check_timers(const Target &target, Reasons &reasons);

}  // namespace ckpt::tools
