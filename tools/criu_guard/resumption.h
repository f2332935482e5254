// SPDX-License-Identifier: Apache-2.0
//
// Suspended programs that get their devices again as soon as CRIU lets them: after a dump that has
// failed or leaves them running, and after a restore. Programs that have ended are left out.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/base/result.h"
#include "tools/proc/process_handle.h"

namespace ckpt::tools {

struct SuspendedProgram {
  static Result<SuspendedProgram> open(pid_t keeper);
  pid_t keeper = 0;
  ProcessHandle handle = {};  // of the keeper
};

// Waits for as long as a process is traced, stopped or frozen. Each program is resumed by a process
// of its own (ckpt-restore --resume), which may become a process of the program's user. Failures go
// to the log, and to that of the system (syslog(3)).
void resume_when_free(const std::vector<SuspendedProgram> &programs);

}  // namespace ckpt::tools
