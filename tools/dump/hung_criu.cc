// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/hung_criu.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/proc/file.h"
#include "common/proc/maps.h"
#include "common/proc/status.h"
#include "common/proc/system_call.h"
#include "tools/criu/first_code.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 4s;                         // for CRIU to end or fail by itself
constexpr auto kReleaseTimeout = 5s;                   // for the kernel to release tracees
constexpr int kLookInterval = 100;                     // milliseconds
constexpr auto kStopTime = 20ms;                       // until every thread of CRIU has stopped
constexpr std::string_view kParasiteFile = "CRIUMFD";  // compel maps a memfd of this name
// What a process blocks between compel_prepare() and its release. sigfillset(3) of the C library
// leaves two more signals out.
constexpr u64 kAllBlocked = 0xfffffffffffbfeff;

const ProcMapping *mapping_at(const std::vector<ProcMapping> &maps, u64 address) {
  for (const ProcMapping &m : maps)
    if (address >= m.begin && address < m.end) return &m;
  return nullptr;
}

bool is_parasite(const ProcMapping &m) { return m.path.find(kParasiteFile) != m.path.npos; }

bool has_code_of_criu(pid_t pid) {
  std::optional<FirstCode> code = FirstCode::of(pid);
  return code && code->is_of_criu();
}

bool thread_may_lose_tracer(pid_t pid, pid_t tid, const std::vector<ProcMapping> &maps) {
  std::optional<proc::SystemCall> call = proc::system_call_of(pid, tid);
  if (!call) return false;
  u64 counter = call->program_counter, code = FirstCode::address_in(maps);
  if (counter >= code && counter < code + sizeof(FirstCode::bytes)) return false;
  const ProcMapping *where = mapping_at(maps, counter);
  return where && (!is_parasite(*where) || call->number == SYS_recvfrom);
}

bool may_lose_tracer(const Process &p) {
  if (p.tracer == 0 || p.state == 'Z' || p.state == 'X') return true;
  std::vector<ProcMapping> maps = proc::mappings_of(p.pid);
  bool in_parasite = std::ranges::any_of(maps, is_parasite);
  Result<proc::Status> status = proc::read_status(p.pid);
  if (!in_parasite && status && status->blocked_signals == kAllBlocked) return false;
  if (has_code_of_criu(p.pid)) return false;
  return std::ranges::all_of(threads_of(p.pid),
                             [&](pid_t tid) { return thread_may_lose_tracer(p.pid, tid, maps); });
}

// Kills CRIU if the program survives it.
bool kill_criu(pid_t criu, const Target &target) {
  ::kill(-criu, SIGSTOP);
  std::this_thread::sleep_for(kStopTime);
  std::vector<Process> tree = ProcessTable::read().tree(target.root);
  bool safe = std::ranges::all_of(tree, may_lose_tracer);
  ::kill(-criu, safe ? SIGKILL : SIGCONT);
  if (safe) log::warn("CRIU does not end, and was killed");
  return safe;
}

bool any_traced(const Target &target) {
  for (const Process &p : ProcessTable::read().tree(target.root))
    if (p.tracer != 0) return true;
  return false;
}

bool is_traced_by_group(const Target &target, pid_t group) {
  ProcessTable table = ProcessTable::read();
  return std::ranges::any_of(table.tree(target.root), [&](const Process &p) {
    const Process *tracer = table.find(p.tracer);
    return tracer && tracer->group == group;
  });
}

// CRIU 4.2 may wait for such a process forever: wait4(2) returns the main thread only after the
// others, which CRIU has not waited for.
bool tracee_has_died(const Target &target) {
  return std::ranges::any_of(target.processes, [](const Process &p) {
    Result<Process> now = read_process(p.pid);
    return now && now->state == 'Z' && now->tracer != 0 && all_threads_have_ended(p.pid);
  });
}

}  // namespace

bool was_killed(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) > 128; }

Result<> wait_for_criu(pid_t criu, const Target &target, const Cancel &cancel,
                       const std::function<void()> &abandon) {
  UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, criu, 0)));
  if (!ended && errno == ESRCH) return {};  // it was not our child
  if (!ended) return fail_errno("cannot watch CRIU");
  std::optional<Clock::time_point> deadline;
  bool abandoned = false, killed = false;
  for (pollfd p{ended.get(), POLLIN, 0}; ::poll(&p, 1, kLookInterval) != 1;) {
    if (!deadline && (cancel.signal() || tracee_has_died(target)))
      deadline = Clock::now() + kPatience;
    if (killed || !deadline || Clock::now() <= *deadline) continue;
    if (abandoned) {
      killed = kill_criu(criu, target);
      continue;
    }
    abandon();
    abandoned = true;
    deadline = Clock::now() + kPatience;
  }
  return {};
}

int reap_criu(pid_t criu, const Target &target) {
  // Until it is reaped, no other process group can get its number.
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(criu), &ended, WEXITED | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  bool killed = ended.si_code != CLD_EXITED || was_killed(W_EXITCODE(ended.si_status, 0));
  if (killed && !is_traced_by_group(target, criu)) ::kill(-criu, SIGKILL);
  int status = 0;
  while (::waitpid(criu, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void report_parasites(const Target &target) {
  for (auto end = Clock::now() + kReleaseTimeout; any_traced(target) && Clock::now() < end;)
    std::this_thread::sleep_for(5ms);
  for (const Process &p : ProcessTable::read().tree(target.root))
    if (std::ranges::any_of(proc::mappings_of(p.pid), is_parasite))
      log::warn(
          "CRIU was killed while it worked in the program: some of its memory stays mapped in "
          "process {} ({})",
          p.pid, p.command);
}

}  // namespace ckpt::tools
