// SPDX-License-Identifier: Apache-2.0
//
// The first executable bytes of a process, where CRIU works.
//
// CRIU lets a process make system calls of CRIU's own. For each it writes its code (`syscall; int3
// …`) over the first executable bytes of the process, and the original bytes back afterwards.
//
// That code can get into an image. The parasite passes pages on by reference (vmsplice(2)): a pipe
// contains what a page contains when it is read, not when CRIU wrote it to the pipe. When CRIU has
// written all pages of a process, it makes the last system calls there, which remove the parasite;
// a reader that comes at that moment finds the code. So the dump records the bytes when CRIU has
// ended, and a restore writes them back.
//
// Source: CRIU 4.2, compel/src/lib/infect.c (compel_execute_syscall), criu/parasite-syscall.c
// (get_exec_start), criu/cr-dump.c (dump_one_task).
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/proc/maps.h"

namespace ckpt::tools {

struct FirstCode {
  u64 address = 0;
  u64 bytes = 0;  // as many as CRIU overwrites, in the order of memory

  // None if it has no executable memory, or its memory cannot be read.
  static std::optional<FirstCode> of(pid_t process);
  static u64 address_in(const std::vector<ProcMapping> &maps);  // 0: nothing is executable

  bool is_of_criu() const;
  // Writes it to a stopped process that has CRIU's code there. Memory that may not be opened is
  // named in a warning.
  Result<> restore_in(pid_t process) const;
};

}  // namespace ckpt::tools
