// SPDX-License-Identifier: Apache-2.0
//
// Prints the signals that it receives. SIGTERM ends it with exit code 3.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>

int main() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT})
    sigaddset(&set, s);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  dprintf(1, "ready\n");
  for (;;) {
    siginfo_t info;
    int s = sigwaitinfo(&set, &info);
    if (s < 0) continue;  // a dump interrupts it
    dprintf(1, "SIG%s\n", sigabbrev_np(s));
    if (s == SIGTERM) return 3;
  }
}
