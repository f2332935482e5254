// SPDX-License-Identifier: Apache-2.0
//
// Kills the writer at each of its system calls with ptrace, because file_system.h covers only a few
// of them. Afterwards there is the old image or the new one.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

const NamedBytes kOld = {{"old", random_bytes(1000, 1)}};
const NamedBytes kNew = {{"new", smooth_bytes(kChunkBytes + 5, 2)},
                         {"small", random_bytes(700, 3)}};

struct Task {
  std::string path, parent;
  bool overwrite = false;
};

[[noreturn]] void write_traced(const Task &task) {
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  auto r = write_image(task.path, kNew,
                       {.threads = 1, .overwrite = task.overwrite, .parent = task.parent});
  ::_exit(r ? 0 : 1);
}

// Stops all threads of the child at the entry and the exit of each system call, and kills the child
// at stop number `stop`.
class Tracer {
 public:
  // Returns false if the child finished before.
  bool kill_at(const Task &task, int stop) {
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) write_traced(task);
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    REQUIRE(WIFSTOPPED(status));
    REQUIRE(::ptrace(PTRACE_SETOPTIONS, pid_, nullptr,
                     PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) == 0);
    resume(pid_, 0);
    return run(stop);
  }

 private:
  static void resume(pid_t thread, int signal) {
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
  }

  bool run(int stop) {
    bool killed = false;
    for (int seen = 0;;) {
      int status = 0;
      pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      REQUIRE(thread > 0);
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread != pid_) continue;
        if (!killed) CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
        return killed;
      }
      bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
      if (is_call && !killed && seen++ == stop) {
        ::kill(pid_, SIGKILL);
        killed = true;
        continue;
      }
      bool pass_on = !is_call && WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP;
      resume(thread, pass_on ? WSTOPSIG(status) : 0);
    }
  }

  pid_t pid_ = 0;
};

bool may_trace() {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The number of stops varies between runs (two threads, futexes), so this ends when the child was
// not killed any more.
void kill_everywhere(bool overwrite, bool increment) {
  TempFolder tmp;
  if (increment) must(write_image(tmp / "base", kNew));
  int stop = 0;
  for (bool killed = true; killed; ++stop) {
    CAPTURE(stop);
    std::filesystem::remove_all(tmp / "image");
    if (overwrite) must(write_image(tmp / "image", kOld));
    Task task{tmp / "image", increment ? tmp / "base" : "", overwrite};
    killed = Tracer().kill_at(task, stop);
    bool is_new = holds(tmp / "image", kNew);
    CHECK((is_new ||
           (overwrite ? holds(tmp / "image", kOld) : !std::filesystem::exists(tmp / "image"))));
    if (!killed) CHECK(is_new);
    must(write_image(tmp / "image", kNew, {.overwrite = true}));
    CHECK(tmp.names().size() == (increment ? 2 : 1));  // the files of the dead writer are removed
    if (increment) CHECK(holds(tmp / "base", kNew));
  }
  CHECK(stop > 60);
}

TEST_CASE("after kill -9 at any system call there is the old image or the new one") {
  if (!may_trace()) {
    MESSAGE("SKIPPED: kill at every system call (ptrace is not permitted)");
    return;
  }
  SUBCASE("a new image") { kill_everywhere(false, false); }
  SUBCASE("an image that replaces another") { kill_everywhere(true, false); }
  SUBCASE("an increment") { kill_everywhere(false, true); }
}

}  // namespace
}  // namespace ckpt::test
