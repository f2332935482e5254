// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/stat (proc_pid_stat(5)): what a process or a thread is, and since when.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::proc {

struct Stat {
  std::string command;  // comm: the name, cut to 15 characters
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  u64 terminal = 0;     // the device number of the controlling terminal; 0: none
  bool ending = false;  // in exit(2), or 'Z'
  u64 used_ticks = 0;   // of the processors, by the process itself; sysconf(_SC_CLK_TCK)
  u64 start_ticks = 0;  // since the boot

  bool has_ended() const { return state == 'Z' || state == 'X'; }
  // Its parent is just waiting for it. The kernel then tells no parent, group and session any more
  // (do_task_stat() in fs/proc/array.c).
  bool is_reaped() const { return group < 0; }
};

// No value: not the text of such a file.
std::optional<Stat> parse_stat(std::string_view text);
Result<Stat> read_stat(pid_t pid);
Result<Stat> read_stat(pid_t pid, pid_t thread);

// When a process has started, since the boot, in sysconf(_SC_CLK_TCK).
Result<u64> start_ticks_of(pid_t pid);

}  // namespace ckpt::proc
