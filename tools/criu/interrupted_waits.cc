// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/interrupted_waits.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <sstream>

#include "common/base/file_text.h"
#include "tools/proc/seized_thread.h"

namespace ckpt::tools {
namespace {

// The kernel's own values (include/linux/errno.h). -ERESTARTNOHAND: EINTR if a handler runs, else
// the call is restarted. -ERESTART_RESTARTBLOCK: it continues as restart_syscall(2), which could
// not be restarted after another dump, because the number of the call is lost.
constexpr i64 kRestartUnlessHandled = -514, kRestartBlock = -516;
constexpr u64 kInstructionBytes = 2;  // of `syscall`

struct SystemCall {
  i64 number = -1;
  u64 second = 0, third = 0, fourth = 0;  // arguments
};

// Whether its third or fourth argument says that it waits without a limit. Futexes that wait for a
// bit set have an absolute time (futex(2)).
bool can_begin_again(const SystemCall &c) {
  switch (c.number) {
    case SYS_poll: return static_cast<int>(c.third) < 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait: return static_cast<int>(c.fourth) < 0;
    case SYS_epoll_pwait2:
    case SYS_semtimedop: return c.fourth == 0;
    case SYS_rt_sigtimedwait: return c.third == 0;
    case SYS_semop: return true;
    case SYS_futex: return (c.second & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    default: return false;
  }
}

// As /proc/PID/task/TID/syscall has it (proc_pid_syscall(5)).
SystemCall call_of(pid_t pid, pid_t thread) {
  std::istringstream in(
      file_text(fmt::format("/proc/{}/task/{}/syscall", pid, thread)).value_or(""));
  SystemCall c;
  u64 first;
  if (!(in >> c.number >> std::hex >> first >> c.second >> c.third >> c.fourth)) c.number = -1;
  return c;
}

// `request`: ptrace(2) of the thread.
template <typename Request>
void restart_by(const Request &request) {
  user_regs_struct r{};
  if (!request(PTRACE_GETREGS, &r)) return;
  bool interrupted = static_cast<i64>(r.rax) == -EINTR || static_cast<i64>(r.rax) == kRestartBlock;
  if (!interrupted || !can_begin_again({static_cast<i64>(r.orig_rax), r.rsi, r.rdx, r.r10})) return;
  r.rax = static_cast<unsigned long long>(kRestartUnlessHandled);
  request(PTRACE_SETREGS, &r);
}

void restart_in(pid_t id, const HeldProcesses &held) {
  if (held.holds(id))
    return restart_by([&](int what, void *data) { return held.request(id, what, 0, data); });
  SeizedThread thread(id);
  if (thread) restart_by([&](int what, void *data) { return thread.request(what, 0, data); });
}

// Field numbers of CRIU's images/core.proto, core-x86.proto and siginfo.proto.
struct CoreEntry {
  static constexpr u32 kThreadInfo = 2, kTask = 3, kThread = 5;
};
constexpr u32 kSharedSignals = 10, kOwnSignals = 9;  // of a task, of a thread
constexpr u32 kSignals = 1, kRegisters = 2;
struct Registers {
  static constexpr u32 kR10 = 8, kAx = 11, kDx = 13, kSi = 14, kOrigAx = 16, kIp = 17;
};

// A restored thread runs the handlers of its pending signals first, and then restarts the call.
bool has_signals(const ProtoMessage &core, u32 part, u32 queue) {
  std::optional<ProtoMessage> entry = ProtoMessage::parse(core.bytes(part));
  std::optional<ProtoMessage> signals = entry ? ProtoMessage::parse(entry->bytes(queue)) : entry;
  return signals && !signals->bytes(kSignals).empty();
}

void edit_registers(ProtoMessage &r) {
  SystemCall c{static_cast<i64>(r.number(Registers::kOrigAx)), r.number(Registers::kSi),
               r.number(Registers::kDx), r.number(Registers::kR10)};
  if (static_cast<i64>(r.number(Registers::kAx)) != -EINTR || !can_begin_again(c)) return;
  r.set_number(Registers::kAx, r.number(Registers::kOrigAx));
  r.set_number(Registers::kIp, r.number(Registers::kIp) - kInstructionBytes);
}

}  // namespace

void restart_interrupted_waits(const std::vector<Process> &processes, const HeldProcesses &held) {
  for (const Process &p : processes)
    for (pid_t thread : threads_of(p.pid))
      if (can_begin_again(call_of(p.pid, thread))) restart_in(thread, held);
}

void restart_interrupted_wait(ProtoMessage &core) {
  if (has_signals(core, CoreEntry::kTask, kSharedSignals) ||
      has_signals(core, CoreEntry::kThread, kOwnSignals))
    return;
  core.edit_each(CoreEntry::kThreadInfo,
                 [](ProtoMessage &info) { info.edit_each(kRegisters, edit_registers); });
}

}  // namespace ckpt::tools
