// SPDX-License-Identifier: Apache-2.0
//
// The handler takes locks and sends messages, which a handler must not do at any time. Here it may:
// the signal comes from an access of the program's own code to its data, as if the code had called
// the library at this place, and the library itself holds none of these locks when it touches such
// memory.
//
// Handlers form a chain, and the program may close it to a ring: it sets a handler that calls ours,
// which then calls that one. So a fault that is passed on and comes back goes to the first handler
// that was found.
#include "common/proc/faults.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace ckpt {
namespace {

using Action = struct sigaction;

std::atomic<bool (*)(u64 address, bool mapped)> resolve_fault{nullptr};
// Never freed, because a handler on another thread may be reading them. Programs set few handlers.
std::atomic<const Action *> first{nullptr}, before{nullptr};
// The last fault that was passed on: what the kernel says of it, and the frame of the handler. A
// handler of the program may leave by siglongjmp(3), so this may be of a fault that is over.
thread_local const siginfo_t *passed_info = nullptr;
thread_local const void *passed_frame = nullptr;

void call(const Action &action, int signal, siginfo_t *info, void *context) {
  if (action.sa_flags & SA_SIGINFO) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) {
    // The access is tried again, and faults again.
    ::sigaction(signal, &action, nullptr);
    return;
  }
  action.sa_handler(signal);
}

// The kernel calls the handler at a fixed distance from what it says of the fault, a handler of the
// program from further down the stack.
bool comes_back(const siginfo_t *info, const void *frame) {
  return info == passed_info && frame < passed_frame;
}

void pass_on(int signal, siginfo_t *info, void *context, const void *frame) {
  if (comes_back(info, frame)) return call(*first, signal, info, context);
  passed_info = info;
  passed_frame = frame;
  call(*before, signal, info, context);
  passed_info = nullptr;
}

void handle(int signal, siginfo_t *info, void *context) {
  int error = errno;
  const void *frame = __builtin_frame_address(0);
  bool mapped = info->si_code == SEGV_ACCERR;
  bool asks = (mapped || info->si_code == SEGV_MAPERR) && !comes_back(info, frame);
  bool resolved = asks && resolve_fault.load()(reinterpret_cast<u64>(info->si_addr), mapped);
  errno = error;
  if (!resolved) pass_on(signal, info, context, frame);
}

bool is_ours(const Action &a) { return (a.sa_flags & SA_SIGINFO) && a.sa_sigaction == handle; }

}  // namespace

void watch_faults(bool (*resolve)(u64 address, bool mapped)) {
  Action now{};
  if (::sigaction(SIGSEGV, nullptr, &now) != 0 || is_ours(now)) return;
  static std::mutex *const kMutex = new std::mutex;
  std::lock_guard lock(*kMutex);
  resolve_fault = resolve;
  const auto *found = new Action(now);
  before = found;
  if (first == nullptr) first = found;
  Action ours{};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace ckpt
