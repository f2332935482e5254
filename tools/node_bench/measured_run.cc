// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/measured_run.h"

#include <signal.h>
#include <sys/wait.h>

#include <chrono>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

volatile sig_atomic_t g_child = 0, g_signal = 0;

// What a terminal sends goes to the whole process group, so the program has it already.
void pass_on(int signal, siginfo_t *info, void *) {
  g_signal = signal;
  if (info->si_code <= 0 && g_child > 0) ::kill(g_child, signal);
}

// A handler, because an ignored or blocked signal would be inherited.
void catch_signals() {
  struct sigaction act {};
  act.sa_sigaction = pass_on;
  act.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int s : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaction(s, &act, nullptr);
}

Result<> check_end(const std::string &name, int status) {
  if (g_signal) return fail("interrupted by signal {}", static_cast<int>(g_signal));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::string end = WIFSIGNALED(status)
                        ? fmt::format("was killed by signal {}", WTERMSIG(status))
                        : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fail_with_hint(fmt::format("{} {}, so nothing was measured", name, end),
                        "a run is measured whole and must end with exit code 0");
}

}  // namespace

Result<double> measured_run(const Spawn &program) {
  catch_signals();
  Clock::time_point begun = Clock::now();
  CKPT_TRY(pid_t child, spawn(program));
  g_child = child;
  if (g_signal) ::kill(child, g_signal);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  double seconds = seconds_since(begun);
  CKPT_CHECK(check_end(program.argv[0], status));
  return seconds;
}

}  // namespace ckpt::tools
