// SPDX-License-Identifier: Apache-2.0
//
// Which processes get a userfaultfd, and what they have afterwards. As root, with processes of
// another user in the place of a restored program, and this one in that of their stem.
#include "helper/userfaultfds.h"

#include <doctest/doctest.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "common/proc/file.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"

using namespace ckpt;
using namespace ckpt::helper;

namespace {

constexpr uid_t kUser = 61234, kOther = 61235;

Identity user() { return {{kUser, kUser, {}}}; }

bool can_try() { return ::geteuid() == 0 && check_userfaultfds(); }

// A process of this user that has done `act`, and has stopped itself.
class StoppedProcess {
 public:
  explicit StoppedProcess(
      uid_t uid, const std::function<void()> &act = [] {}) {
    pid_ = ::fork();
    if (pid_ == 0) {
      bool ready = ::setgroups(0, nullptr) == 0 && ::setresgid(uid, uid, uid) == 0 &&
                   ::setresuid(uid, uid, uid) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
      act();
      if (ready) ::raise(SIGSTOP);
      for (;;) ::pause();
    }
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  ~StoppedProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

std::string refusal(pid_t process) {
  Identity identity = user();
  Result<UniqueFd> made = Userfaultfds(::getpid(), identity).make(process);
  return made ? "none" : made.error().what;
}

// A child with the same table of descriptors, which ends with its parent.
void share_descriptors() {
  if (::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("a stopped process gets a userfaultfd, and is as before" * doctest::skip(!can_try())) {
  StoppedProcess process(kUser);
  auto registers = [&] { return proc::text(process.pid(), "syscall"); };
  std::vector<int> before = proc::descriptors_of(process.pid());
  std::string at = registers();
  Identity identity = user();
  Userfaultfds all(::getpid(), identity);
  {
    Result<UniqueFd> made = all.make(process.pid());
    REQUIRE_MESSAGE(made, made.error().what);
    CHECK(proc::link(proc::kSelf, fmt::format("fd/{}", made->get())) == "anon_inode:[userfaultfd]");
    CHECK(!agree_on_events(made->get()));  // that was done, and can be done once
  }
  CHECK(proc::descriptors_of(process.pid()) == before);
  for (int i = 0; i < 1000 && proc::read_stat(process.pid())->state != 'T'; i++) ::usleep(10'000);
  CHECK(proc::read_stat(process.pid())->state == 'T');
  CHECK(registers() == at);
  CHECK(proc::read_status(process.pid())->tracer == 0);
  CHECK(!all.make(process.pid()));
}

TEST_CASE("the process can be traced afterwards, as before" * doctest::skip(!can_try())) {
  StoppedProcess process(kUser);
  CHECK(refusal(process.pid()) == "none");
  CHECK(refusal(process.pid()) == "none");
}

TEST_CASE("no process that the caller could not trace" * doctest::skip(!can_try())) {
  constexpr const char *kSays = "cannot be traced by its user";
  StoppedProcess others(kOther), roots(0);
  StoppedProcess hidden(kUser, [] { ::prctl(PR_SET_DUMPABLE, 0); });
  for (pid_t pid : {others.pid(), roots.pid(), hidden.pid()})
    CHECK_MESSAGE(refusal(pid).find(kSays) != std::string::npos, refusal(pid));
}

TEST_CASE("no process that runs, or is of another restore" * doctest::skip(!can_try())) {
  StoppedProcess running(kUser);
  ::kill(running.pid(), SIGCONT);
  CHECK(refusal(running.pid()).find("is not stopped") != std::string::npos);
  StoppedProcess outside(kUser);
  Identity identity = user();
  // A stem that has ended has no namespace.
  Result<UniqueFd> made = Userfaultfds(1 << 30, identity).make(outside.pid());
  REQUIRE(!made);
  CHECK(made.error().what.find("is none of this restore") != std::string::npos);
}

TEST_CASE("no process whose descriptors another one shares" * doctest::skip(!can_try())) {
  StoppedProcess process(kUser, share_descriptors);
  std::string said = refusal(process.pid());
  CHECK_MESSAGE(said.find("may share") != std::string::npos, said);
}
