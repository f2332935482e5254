// SPDX-License-Identifier: Apache-2.0
#include "helper/stem.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/io.h"
#include "helper/protocol.h"

namespace ckpt::helper {
namespace {

class Stem {
 public:
  Stem(const StemPlan &plan, const Identity &identity, u64 capabilities)
      : plan_(plan), identity_(identity), capabilities_(capabilities) {}

  int run() {
    ::prctl(PR_SET_NAME, kStemName);
    // Above all not the other end of `events`: its end could not be seen then.
    std::vector<int> kept = plan_.criu.inherited;
    kept.insert(kept.end(), {plan_.events, plan_.criu.in, plan_.criu.out});
    close_all_but(std::move(kept));
    Result<> done = prepare();
    if (done) done = restore();
    if (!done) {
      std::string line = fmt::format("Error (ckpt-helper): ): {}\n", done.error().what);
      (void)write_all(plan_.criu.out, view(line));
      return 1;
    }
    close_descriptors();
    send(Event::Started, plan_.root);
    // The program stays stopped until its keeper has found it.
    char acknowledgement;
    if (!read_exactly(plan_.events, &acknowledgement, 1)) return 1;
    send(Event::Continued, 0);  // by the caller
    return watch();
  }

 private:
  void send(Event::Kind kind, int value) {
    Event e{kind, value};
    (void)write_all(plan_.events, view(&e, sizeof e));
  }

  Result<> prepare() {
    CKPT_CHECK(set_up_namespace(plan_.surroundings));
    if (::setsid() < 0) return fail_errno("cannot create a session");
    if (plan_.lead_terminal && ::ioctl(plan_.criu.in, TIOCSCTTY, 0) < 0)
      return fail_errno("cannot take the pseudo-terminal as controlling terminal");
    return {};
  }

  Result<> restore() {
    CKPT_TRY(pid_t criu, start_criu(plan_.criu, identity_, capabilities_));
    if (!become(identity_, 0)) return fail_errno("cannot become the caller");
    CKPT_TRY(int status, wait_for(criu));
    send(Event::CriuEnded, status);
    if (status != 0) return fail("CRIU failed");
    return plan_.most ? lower_limits_of_all(*plan_.most) : Result<>{};
  }

  // If the caller hangs up, the copy is of no use.
  Result<int> wait_for(pid_t criu) {
    UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, criu, 0)));
    pollfd fds[]{{ended.get(), POLLIN, 0}, {plan_.events, POLLIN, 0}};
    while (::poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    if (fds[0].revents == 0) return fail("the caller has hung up");
    int status = 0;
    if (::waitpid(criu, &status, 0) < 0) return fail_errno("cannot wait for CRIU");
    return status;
  }

  // The readers of the program's output must see the end of file when the program closes it.
  void close_descriptors() {
    int null = ::open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) ::dup2(null, fd);
    close_all_but({plan_.events});
  }

  // The first process of a namespace inherits all orphans of it.
  int watch() {
    int status;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR;)
      if (pid == plan_.root && WIFSTOPPED(status))
        send(Event::Stopped, WSTOPSIG(status));
      else if (pid == plan_.root)
        send(Event::Ended, status);
    return 0;
  }

  const StemPlan &plan_;
  const Identity &identity_;
  u64 capabilities_;
};

}  // namespace

// As in fork(), but fork() takes no flags for namespaces.
Result<pid_t> start_stem(const StemPlan &plan, const Identity &identity, u64 capabilities) {
  long pid = ::syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, nullptr, nullptr, nullptr,
                       nullptr);
  if (pid < 0) return fail_errno("cannot create a PID namespace");
  if (pid == 0) ::_exit(Stem(plan, identity, capabilities).run());
  return static_cast<pid_t>(pid);
}

}  // namespace ckpt::helper
