// SPDX-License-Identifier: Apache-2.0
//
// The handler takes locks and sends messages, which a handler must not do at any time. Here it may:
// the signal comes from an access of the program's own code to its data, as if the code had called
// the library at this place, and the library itself holds none of these locks when it touches such
// memory.
#include "remote/cuda/client/memory/faults.h"

#include <cerrno>
#include <csignal>
#include <mutex>

namespace ckpt::remote::cuda {
namespace {

bool (*resolve_fault)(u64 address) = nullptr;
struct sigaction before;

void pass_on(int signal, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler == SIG_IGN || before.sa_handler == SIG_DFL) {
    // The access is tried again, and faults again.
    ::sigaction(signal, &before, nullptr);
    return;
  }
  before.sa_handler(signal);
}

void handle(int signal, siginfo_t *info, void *context) {
  int error = errno;
  bool resolved =
      info->si_code == SEGV_ACCERR && resolve_fault(reinterpret_cast<u64>(info->si_addr));
  errno = error;
  if (!resolved) pass_on(signal, info, context);
}

}  // namespace

void watch_faults(bool (*resolve)(u64 address)) {
  static std::once_flag once;
  std::call_once(once, [&] {
    resolve_fault = resolve;
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ::sigaction(SIGSEGV, &ours, &before);
  });
}

}  // namespace ckpt::remote::cuda
