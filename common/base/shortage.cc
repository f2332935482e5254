// SPDX-License-Identifier: Apache-2.0
#include "common/base/shortage.h"

#include <signal.h>

#include <new>
#include <system_error>

namespace ckpt {

Error error_of(const std::exception &e) {
  if (dynamic_cast<const std::bad_alloc *>(&e)) return {"not enough memory", resource_hint(ENOMEM)};
  return {fmt::format("unexpected failure: {}", e.what()), ""};
}

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error &e) {  // the only way in which std::thread reports EAGAIN
    return fail_with_hint(fmt::format("cannot start a thread: {}", e.code().message()),
                          "raise the limits of processes and memory (ulimit -u, ulimit -v, the "
                          "cgroup's pids.max)");
  } catch (const std::bad_alloc &e) {
    return Failure(error_of(e));
  }
}

// A handler and not SIG_IGN, which execve(2) would preserve.
void survive_file_size_limit() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

}  // namespace ckpt
