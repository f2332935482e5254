// SPDX-License-Identifier: Apache-2.0
#include "tools/session/stop_signals.h"

#include <signal.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/proc/seized_thread.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopTimeout = 1s;
constexpr u64 kChildSignal = u64{1} << (SIGCHLD - 1);  // in a mask of signals

bool runs(const Process &p) { return p.state == 'R' || p.state == 'S'; }

// CRIU does not wait for its SIGSTOP to take effect, and a later stop is signalled later.
void wait_until_stopped(const std::vector<Process> &tree) {
  auto end = Clock::now() + kStopTimeout;
  for (const Process &p : tree)
    for (Result<Process> now = read_process(p.pid); now && runs(*now) && Clock::now() < end;
         now = read_process(p.pid))
      std::this_thread::sleep_for(1ms);
}

bool is_any_of(pid_t pid, const std::set<pid_t> &processes, const std::vector<Process> &tree) {
  return std::ranges::any_of(tree, [&](const Process &p) {
    return processes.contains(p.pid) && std::ranges::count(p.ns_pids, pid) > 0;
  });
}

// A signal that is pending hides later ones of the same number, such as that of a child's end.
bool has_ended_child(pid_t parent) {
  ProcessTable table = ProcessTable::read();
  return std::ranges::any_of(table.children(parent),
                             [&](pid_t child) { return table.find(child)->state == 'Z'; });
}

// Only a thread that takes a signal can remove it, so the signal is not blocked for that moment.
void discard_in(pid_t parent, const std::vector<Process> &tree, const std::set<pid_t> &keep) {
  proc::SeizedThread thread(parent);
  u64 blocked = 0, all_others = ~kChildSignal;
  siginfo_t info{};
  if (!thread || !thread.request(PTRACE_GETSIGMASK, sizeof blocked, &blocked)) return;
  thread.request(PTRACE_SETSIGMASK, sizeof all_others, &all_others);
  bool taken = thread.take(SIGCHLD);
  thread.request(PTRACE_SETSIGMASK, sizeof blocked, &blocked);
  if (!taken) return;
  bool of_stop = thread.request(PTRACE_GETSIGINFO, 0, &info) && info.si_code == CLD_STOPPED &&
                 info.si_status == SIGSTOP && !is_any_of(info.si_pid, keep, tree);
  if (!of_stop || has_ended_child(parent)) thread.pass_on(SIGCHLD);
}

}  // namespace

void discard_stop_signals(const std::vector<Process> &tree, const std::set<pid_t> &leave_stopped) {
  auto stopped = [&](const Process &p) { return p.state == 'T' && !leave_stopped.contains(p.pid); };
  if (std::ranges::none_of(tree, stopped)) return;
  wait_until_stopped(tree);
  for (const Process &p : tree)
    if (Result<Process> now = read_process(p.pid); now && now->pending_signals & kChildSignal)
      discard_in(p.pid, tree, leave_stopped);
}

}  // namespace ckpt::tools
