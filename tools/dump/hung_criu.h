// SPDX-License-Identifier: Apache-2.0
//
// Ends a CRIU that hangs.
//
// A cancelled dump discards what CRIU still writes, and CRIU gets some seconds to end with the
// program stopped. After them its pipes are broken. CRIU then fails, takes its parasite code out of
// the program and releases it, and gets some seconds again. If CRIU hangs, it is killed after that,
// but not at any moment: while it executes system calls inside of a process,
// the death of CRIU kills that process (SIGTRAP). So CRIU is stopped first, the program is
// inspected, and CRIU is killed only if all threads are in one of the following states. Otherwise
// CRIU is continued and inspected again soon.
//
//   not traced              CRIU has not come so far, or is done with it
//   stopped in its own code the kernel releases the tracees of a tracer that ends (ptrace(2))
//   parasite, in recvfrom   it finds its socket closed and restores the registers and the signal
//                           mask of the program itself (fini() of compel's plugins/std/infect.c);
//                           its memory stays mapped, which is harmless and is reported
//
// Source: CRIU 4.2, compel/src/lib/infect.c.
#pragma once

#include <sys/types.h>

#include <functional>

#include "common/base/result.h"
#include "tools/dump/cancel.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Waits until the process `criu` has ended, the leader of a process group of its own that dumps
// `target`. Some seconds after a signal to this tool, `abandon` is called, which breaks the pipes.
// Some seconds later, CRIU is killed.
Result<> wait_for_criu(pid_t criu, const Target &target, const Cancel &cancel,
                       const std::function<void()> &abandon);

// Waits for CRIU, which has ended, and returns its wait status. If it was killed, its own children
// continue: one of the processes with which it probes the kernel sleeps forever (CRIU 4.2,
// kerndat.c), and holds CRIU's connections and the image's folder. So they are ended, too. If only
// a wrapper was killed, CRIU itself is not ended once it traces the program.
int reap_criu(pid_t criu, const Target &target);

// True for the wait status of a CRIU that a signal has ended. A wrapper, such as nsenter, reports a
// signal as a shell does.
bool was_killed(int status);

// After CRIU was killed: waits until no process of the program has a tracer, and logs which ones
// still hold CRIU's code.
void report_parasites(const Target &target);

}  // namespace ckpt::tools
