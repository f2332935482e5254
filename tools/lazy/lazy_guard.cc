// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/lazy_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <string_view>
#include <thread>

#include "common/base/clock.h"
#include "common/base/test_points.h"
#include "common/proc/file.h"
#include "tools/proc/process.h"
#include "tools/session/process_tree.h"

namespace ckpt::tools {
namespace {

bool lives(const Process &p) { return p.state != 'Z' && p.state != 'X'; }

// A keeper that the kernel has killed for lack of memory may be followed by its guard, before this
// one has ended the program. Then zeros would be read. The guard's few pages would not help anyway.
void never_choose_for_lack_of_memory() {
  constexpr std::string_view kNever = "-1000";  // proc_pid_oom_score_adj(5)
  Result<UniqueFd> file = proc::open(proc::kSelf, "oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file) (void)!::write(file->get(), kNever.data(), kNever.size());
}

// The stem last: orphans of the program become its children, and would be lost with it.
void end_tree(pid_t stem) {
  using namespace std::chrono_literals;
  for (auto end = Clock::now() + 10s; Clock::now() < end; std::this_thread::sleep_for(1ms)) {
    bool any = false;
    for (const Process &p : ProcessTable::read().tree(stem))
      if (p.pid != stem && lives(p)) {
        any = true;
        kill_tree(p.pid);
      }
    if (!any) break;
  }
  ::kill(stem, SIGKILL);
}

}  // namespace

Result<> LazyGuard::start() {
  void *memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno("cannot map memory for the guard");
  shared_ = new (memory) Shared;
  keeper_.reset(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!keeper_) return fail_errno("cannot watch this process");
  // Not fork(2), which copies the table of descriptors. This process has one thread, so the child
  // may do what it likes.
  pid_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
  if (pid_ < 0) return fail_errno("cannot start the guard of the program's memory");
  if (pid_ == 0) guard();
  guard_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!guard_) return fail_errno("cannot watch the guard of the program's memory");
  return {};
}

void LazyGuard::guard() const {
  ::prctl(PR_SET_NAME, "ckpt-guard");
  never_choose_for_lack_of_memory();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  pollfd p{keeper_.get(), POLLIN, 0};
  while (::poll(&p, 1, -1) != 1) {
  }
  if (pid_t stem = shared_->stem; stem && !shared_->released) {
    constexpr std::string_view kWhy =
        "ckpt-restore: error: it was killed while the program's memory arrived (--lazy), so the "
        "program was ended; the image is unchanged: restore it again\n";
    (void)!::write(STDERR_FILENO, kWhy.data(), kWhy.size());
    end_tree(stem);
  }
  ::_exit(0);
}

void LazyGuard::release() {
  if (!shared_) return;
  shared_->released = true;
  test_point("guard-released");
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::munmap(shared_, sizeof(Shared));
  shared_ = nullptr;
  pid_ = 0;
}

}  // namespace ckpt::tools
