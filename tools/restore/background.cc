// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/print.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;

volatile pid_t g_child = 0;

// The child is in another session, so Ctrl-C does not reach it.
void cancel_by_signals(pid_t child) {
  g_child = child;
  struct sigaction action {};
  action.sa_handler = [](int signal) { ::kill(g_child, signal); };
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

int wait_for_report(UniqueFd in, pid_t child) {
  pid_t pid = 0;
  if (read_exactly(in.get(), &pid, sizeof pid)) {
    print("{}\n", pid);
    return 0;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : kFailed;
}

}  // namespace

std::optional<int> Background::detach() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return kFailed;
  UniqueFd in(ends[0]);
  report_.reset(ends[1]);
  pid_t child = ::fork();
  if (child < 0) return kFailed;
  if (child > 0) {
    report_.reset();
    cancel_by_signals(child);
    return wait_for_report(std::move(in), child);
  }
  ::setsid();
  return std::nullopt;
}

void Background::report(pid_t pid) {
  if (!report_) return;
  (void)write_all(report_.get(), view(&pid, sizeof pid));
  report_.reset();
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDERR_FILENO);
  if (null > 2) ::close(null);
}

}  // namespace ckpt::tools
