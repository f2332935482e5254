// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/thread_state.h"

#include <linux/kcmp.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "common/proc/file.h"
#include "tools/proc/timers.h"

namespace ckpt::tools {
namespace {

// A kernel without kcmp(2) gives -1: unknown.
bool differ(pid_t a, pid_t b, int what) { return ::syscall(SYS_kcmp, a, b, what, 0, 0) > 0; }

bool namespaces_differ(pid_t pid, pid_t thread) {
  for (const char *name : {"net", "mnt", "uts", "ipc", "cgroup"}) {
    struct stat a {
    }, b{};
    if (::stat(proc::path(pid, fmt::format("ns/{}", name)).c_str(), &a) == 0 &&
        ::stat(proc::path(pid, thread, fmt::format("ns/{}", name)).c_str(), &b) == 0 &&
        a.st_ino != b.st_ino)
      return true;
  }
  return false;
}

// Of a thread, the main thread included: CRIU saves the policy and cannot set it again.
std::string unrestorable_policy(pid_t thread) {
  constexpr long kResetOnFork = 0x40000000, kSchedExt = 7;  // sched_setscheduler(2), sched_ext
  long policy = ::syscall(SYS_sched_getscheduler, thread) & ~kResetOnFork;
  if (policy == SCHED_DEADLINE) return "SCHED_DEADLINE";
  return policy == kSchedExt ? "SCHED_EXT" : "";
}

std::string own_state(pid_t pid, pid_t thread) {
  if (differ(pid, thread, KCMP_FILES)) return "descriptors of its own (unshare(CLONE_FILES))";
  if (differ(pid, thread, KCMP_FS))
    return "a working folder, root folder or umask of its own (unshare(CLONE_FS))";
  if (namespaces_differ(pid, thread)) return "a namespace of its own (unshare, setns)";
  return {};
}

// A thread that ends has no descriptors any more while it still can be seen.
std::string lasting_own_state(pid_t pid, pid_t thread) {
  constexpr int kLooks = 10;
  std::string state = own_state(pid, thread);
  for (int i = 0; i < kLooks && !state.empty(); i++) {
    ::usleep(10'000);
    state = own_state(pid, thread);
  }
  return state;
}

}  // namespace

void check_scheduling(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    for (pid_t thread : threads_of(p.pid))
      if (std::string policy = unrestorable_policy(thread); !policy.empty())
        reasons.push_back(fmt::format(
            "{}: thread {} ({}) has the scheduling policy {}, which CRIU cannot restore: give it "
            "another one first (chrt --other --pid 0 {})",
            name_of(p), thread, thread_name(p.pid, thread), policy, thread));
}

void check_timers(const Target &target, Reasons &reasons) {
  auto is_inside = [&target](pid_t pid) {
    return std::ranges::any_of(target.processes,
                               [pid](const Process &p) { return p.ns_pid() == pid; });
  };
  for (const Process &p : target.processes)
    for (const PosixTimer &t : posix_timers_of(p.pid))
      if (std::string why = unrestorable_clock(t, threads_of(p.pid).size(), is_inside);
          !why.empty()) {
        reasons.push_back(fmt::format("{} has {}", name_of(p), why));
        break;
      }
}

void check_thread_state(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    for (pid_t thread : threads_of(p.pid))
      if (std::string state = thread == p.pid ? "" : lasting_own_state(p.pid, thread);
          !state.empty()) {
        reasons.push_back(fmt::format(
            "{}: thread {} ({}) has {}, which CRIU cannot checkpoint: let a process do this work "
            "instead, or end the thread first",
            name_of(p), thread, thread_name(p.pid, thread), state));
        break;
      }
}

}  // namespace ckpt::tools
