// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/interrupted_waits.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <optional>

#include "common/proc/seized_thread.h"
#include "common/proc/system_call.h"

namespace ckpt::tools {
namespace {

// The kernel's own values (include/linux/errno.h). -ERESTARTNOHAND: EINTR if a handler runs, else
// the call is restarted. -ERESTART_RESTARTBLOCK: it continues as restart_syscall(2), which could
// not be restarted after another dump, because the number of the call is lost.
constexpr i64 kRestartUnlessHandled = -514, kRestartBlock = -516;
constexpr u64 kInstructionBytes = 2;  // of `syscall`

using proc::SystemCall;

// Whether its third or fourth argument says that it waits without a limit. Futexes that wait for a
// bit set have an absolute time (futex(2)).
bool can_begin_again(const SystemCall &c) {
  switch (c.number) {
    case SYS_poll: return static_cast<int>(c.arguments[2]) < 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait: return static_cast<int>(c.arguments[3]) < 0;
    case SYS_epoll_pwait2:
    case SYS_semtimedop: return c.arguments[3] == 0;
    case SYS_rt_sigtimedwait: return c.arguments[2] == 0;
    case SYS_semop: return true;
    case SYS_futex: return (c.arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    default: return false;
  }
}

SystemCall call_with(u64 number, u64 second, u64 third, u64 fourth) {
  return {static_cast<i64>(number), {0, second, third, fourth}, 0};
}

// `request`: ptrace(2) of the thread.
template <typename Request>
void restart_by(const Request &request) {
  user_regs_struct r{};
  if (!request(PTRACE_GETREGS, &r)) return;
  bool interrupted = static_cast<i64>(r.rax) == -EINTR || static_cast<i64>(r.rax) == kRestartBlock;
  if (!interrupted || !can_begin_again(call_with(r.orig_rax, r.rsi, r.rdx, r.r10))) return;
  r.rax = static_cast<unsigned long long>(kRestartUnlessHandled);
  request(PTRACE_SETREGS, &r);
}

void restart_in(pid_t id, const HeldProcesses &held) {
  if (held.holds(id))
    return restart_by([&](int what, void *data) { return held.request(id, what, 0, data); });
  proc::SeizedThread thread(id);
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
  SystemCall c = call_with(r.number(Registers::kOrigAx), r.number(Registers::kSi),
                           r.number(Registers::kDx), r.number(Registers::kR10));
  if (static_cast<i64>(r.number(Registers::kAx)) != -EINTR || !can_begin_again(c)) return;
  r.set_number(Registers::kAx, r.number(Registers::kOrigAx));
  r.set_number(Registers::kIp, r.number(Registers::kIp) - kInstructionBytes);
}

}  // namespace

void restart_interrupted_waits(const std::vector<Process> &processes, const HeldProcesses &held) {
  for (const Process &p : processes)
    for (pid_t thread : threads_of(p.pid))
      if (std::optional<SystemCall> c = proc::system_call_of(p.pid, thread);
          c && can_begin_again(*c))
        restart_in(thread, held);
}

void restart_interrupted_wait(ProtoMessage &core) {
  if (has_signals(core, CoreEntry::kTask, kSharedSignals) ||
      has_signals(core, CoreEntry::kThread, kOwnSignals))
    return;
  core.edit_each(CoreEntry::kThreadInfo,
                 [](ProtoMessage &info) { info.edit_each(kRegisters, edit_registers); });
}

}  // namespace ckpt::tools
