// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/task/TID/syscall (proc_pid_syscall(5)): the system call that a thread is in.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::proc {

struct SystemCall {
  i64 number = -1;  // -1: the thread waits, but in no system call
  std::array<u64, 6> arguments{};
  u64 program_counter = 0;
};

// No value: the thread runs ("running"), or this is not the text of such a file.
std::optional<SystemCall> parse_system_call(std::string_view text);
// No value also if the thread has ended, or if this process may not trace it.
std::optional<SystemCall> system_call_of(pid_t pid, pid_t thread);

}  // namespace ckpt::proc
