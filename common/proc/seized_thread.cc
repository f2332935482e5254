// SPDX-License-Identifier: Apache-2.0
#include "common/proc/seized_thread.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <optional>
#include <thread>

#include "common/base/clock.h"

namespace ckpt::proc {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopTimeout = 10s;  // on a busy machine, too

// The wait status of a thread that is stopped for us, as waitpid(2) would give it.
std::optional<int> status_of_stop(pid_t thread) {
  siginfo_t info;
  if (::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) != 0) return {};
  return info.si_code >> 8 << 16 | info.si_signo << 8 | 0x7f;
}

// The wait status of its stop. Another thread of this process may wait for all children, as a
// keeper does, and take the status first; the thread is stopped all the same.
std::optional<int> wait_for_stop(pid_t thread) {
  int status;
  for (auto end = Clock::now() + kStopTimeout; Clock::now() < end;) {
    pid_t stopped = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (stopped == thread && WIFSTOPPED(status)) return status;
    if (stopped != 0) return {};
    if (std::optional<int> taken = status_of_stop(thread)) return taken;
    std::this_thread::sleep_for(100us);
  }
  return {};
}

}  // namespace

SeizedThread::SeizedThread(pid_t thread)
    : thread_(thread), seized_(::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0) {
  if (!seized_) stopped_ = status_of_stop(thread).has_value();
  if (!seized_) return;
  ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  stopped_ = wait_for_stop(thread).has_value();
}

SeizedThread::~SeizedThread() {
  if (seized_) ::ptrace(PTRACE_DETACH, thread_, nullptr, passed_on_);
}

bool SeizedThread::request(int ptrace_request, u64 address, void *data) const {
  return ::ptrace(static_cast<__ptrace_request>(ptrace_request), thread_, address, data) == 0;
}

bool SeizedThread::take(int signal) { return runs_until(signal, PTRACE_CONT); }

// Not by PTRACE_SINGLESTEP, whose trap is a signal: it would reset a SIGTRAP that is ignored.
bool SeizedThread::enter_system_call() { return runs_until(SIGTRAP, PTRACE_SYSCALL); }
bool SeizedThread::leave_system_call() { return runs_until(SIGTRAP, PTRACE_SYSCALL); }

bool SeizedThread::runs_until(int signal, int how) {
  // A thread of a stopped process reports that stop first, more than once.
  constexpr int kStops = 4;
  auto request = static_cast<__ptrace_request>(how);
  std::optional<int> status = PTRACE_EVENT_STOP << 16;
  for (int i = 0; i < kStops && status && *status >> 16 == PTRACE_EVENT_STOP; i++)
    status =
        ::ptrace(request, thread_, nullptr, nullptr) == 0 ? wait_for_stop(thread_) : std::nullopt;
  if (!status) {
    ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr);
    status = wait_for_stop(thread_);
  }
  stopped_ = status.has_value();
  return stopped_ && *status >> 16 == 0 && WSTOPSIG(*status) == signal;
}

}  // namespace ckpt::proc
