// SPDX-License-Identifier: Apache-2.0
#include "tools/session/stop_watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace ckpt::tools {
namespace {

constexpr timespec kInterval{0, 20'000'000};

// The path of a process's state, made before the fork: the child may call only async-signal-safe
// functions.
struct StatPath {
  char text[32];
  explicit StatPath(pid_t pid) { ::snprintf(text, sizeof text, "/proc/%d/stat", pid); }
};

// The letter after the command's name in parentheses; 0: there is no such process.
char state_in(const StatPath &path) {
  char line[256];
  int fd = ::open(path.text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = ::read(fd, line, sizeof line - 1);
  ::close(fd);
  line[n > 0 ? n : 0] = 0;
  const char *end = ::strrchr(line, ')');
  return end && end[1] == ' ' ? end[2] : 0;
}

// A signal to a keeper that is not stopped yet would be lost, so both states are checked.
[[noreturn]] void watch(const StatPath &program, const StatPath &keeper, pid_t keeper_pid) {
  ::setpgid(0, 0);  // out of the reach of the terminal's and the job's signals
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == keeper_pid) {
    if (state_in(program) != 'T' && state_in(keeper) == 'T') ::kill(keeper_pid, SIGCONT);
    ::nanosleep(&kInterval, nullptr);
  }
  ::_exit(0);
}

}  // namespace

StopWatcher::StopWatcher(pid_t program) {
  StatPath of_program(program), of_keeper(::getpid());
  pid_t keeper = ::getpid();
  child_ = ::fork();
  if (child_ == 0) watch(of_program, of_keeper, keeper);
}

StopWatcher::~StopWatcher() {
  if (!started()) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ckpt::tools
