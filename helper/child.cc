// SPDX-License-Identifier: Apache-2.0
#include "helper/child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace ckpt::helper {
namespace {

constexpr int kNotStarted = 127;

// A signal that is ignored stays so after an exec. CRIU's log beyond `ulimit -f` must not end it
// while its code is inside of the program.
void reset_signals() {
  for (int s = 1; s < NSIG; s++) ::signal(s, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool set_streams(const Child &child) {
  int in = child.in >= 0 ? child.in : ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (::dup2(in, 0) < 0 || ::dup2(child.out, 1) < 0 || ::dup2(child.out, 2) < 0) return false;
  for (int fd : child.inherited)
    if (::fcntl(fd, F_SETFD, 0) < 0) return false;
  return true;
}

[[noreturn]] void run(const Child &child, const Identity &identity, u64 capabilities) {
  std::vector<char *> argv;
  for (const std::string &a : child.argv) argv.push_back(const_cast<char *>(a.c_str()));
  argv.push_back(nullptr);
  const char *environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", nullptr};
  reset_signals();
  ::setpgid(0, 0);
  bool ready = set_streams(child) &&
               (child.mount_namespace < 0 || ::setns(child.mount_namespace, CLONE_NEWNS) == 0) &&
               ::chdir(child.folder.c_str()) == 0 && become(identity, capabilities);
  if (ready) ::execve(argv[0], argv.data(), const_cast<char **>(environment));
  ::dprintf(2, "Error (ckpt-helper): ): cannot start %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(kNotStarted);
}

}  // namespace

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  int next = 3;
  for (int fd : kept) {
    if (fd > next) ::syscall(SYS_close_range, next, fd - 1, 0);
    next = std::max(next, fd + 1);
  }
  ::syscall(SYS_close_range, next, ~0u, 0);
}

Result<pid_t> start_criu(const Child &child, const Identity &identity, u64 capabilities) {
  pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot fork");
  if (pid == 0) run(child, identity, capabilities);
  return pid;
}

int reap_with_children(pid_t criu) {
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(criu), &ended, WEXITED | WNOWAIT);
  if (ended.si_code != CLD_EXITED) ::kill(-criu, SIGKILL);
  int status = 0;
  ::waitpid(criu, &status, 0);
  return status;
}

}  // namespace ckpt::helper
