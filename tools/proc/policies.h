// SPDX-License-Identifier: Apache-2.0
//
// What a program, or who starts it, has told the kernel about how to run it, and CRIU does not
// keep: I/O priorities (ionice), timer slack, memory policies (numactl, mbind(2)), KSM,
// mlockall(MCL_FUTURE), and what a core dump has. Also what CRIU sets again only where it may, and
// says nothing where it may not: nice values below 0 and real-time policies, of which a user's CRIU
// has no right. Results do not depend on it, speed does.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

struct RealTime {
  int policy = 0;  // SCHED_FIFO, SCHED_RR
  int priority = 0;
  bool operator==(const RealTime &) const = default;
};

struct ThreadPolicies {
  std::optional<i64> io_priority;  // as ioprio_get(2) has it
  std::optional<i64> timer_slack;  // in nanoseconds
  std::string memory;              // as /proc/PID/numa_maps has it: "interleave:0-1"
  std::optional<i64> nice;         // below 0
  std::optional<RealTime> real_time;
  static ThreadPolicies of(pid_t process, pid_t thread);
  bool operator==(const ThreadPolicies &) const = default;
  bool empty() const { return *this == ThreadPolicies(); }
  // Without what equals `given`, but for what CRIU may not be able to set.
  ThreadPolicies different_from(const ThreadPolicies &given) const;
};

struct MemoryRange {
  u64 begin, end;
  std::string policy;
};

struct ProcessPolicies {
  std::optional<u64> core_dump_filter;  // of what memory: core(5)
  bool merge_pages = false;             // prctl(PR_SET_MEMORY_MERGE)
  int lock_future = 0;                  // the flags of mlockall(2)
  std::vector<MemoryRange> ranges;      // those with another policy than the main thread

  // Without lock_future and ranges.
  static ProcessPolicies of(pid_t process);
  bool empty() const { return !core_dump_filter && !merge_pages && !lock_future && ranges.empty(); }
};

// Reads the whole table of a process, which takes a moment for a large one: the kernel counts
// pages.
std::vector<MemoryRange> ranges_with_own_policy(pid_t process);
// The flags of mlockall(2) for future mappings, which the kernel shows nowhere: the process, which
// must be stopped, makes a mapping and removes it again.
// The flags of mlockall(2), of a stopped process; 0 without MCL_FUTURE.
Result<int> locks_future_memory(pid_t process);

// Give up at the first error, and name what could not be set.
Result<> apply(const ThreadPolicies &p, pid_t process, pid_t thread);
Result<> apply(const ProcessPolicies &p, pid_t process);

}  // namespace ckpt::tools
