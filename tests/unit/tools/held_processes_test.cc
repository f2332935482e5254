// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/held_processes.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

using namespace ckpt;
using namespace ckpt::tools;
using namespace std::chrono_literals;

namespace {

struct Child {
  Child() : pid(::fork()) {
    while (pid == 0) ::pause();
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void is_sent(int signal) const { ::kill(pid, signal); }
  std::vector<Process> list() const {
    Process p;
    p.pid = pid;
    return {p};
  }
  bool runs() const { return HeldProcesses::find_continued(list()) == pid; }
  bool runs_soon() const {
    for (int i = 0; i < 500 && !runs(); i++) std::this_thread::sleep_for(10ms);
    return runs();
  }
  pid_t pid;
};

}  // namespace

TEST_CASE("a stopped process that is held stays stopped until it is released") {
  Child child;
  child.is_sent(SIGSTOP);
  HeldProcesses held;
  held.hold(child.list());  // waits for the stop
  CHECK(held.holds(child.pid));
  CHECK_FALSE(child.runs());
  child.is_sent(SIGCONT);
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(child.runs());
  held.release();
  CHECK(child.runs_soon());
}

TEST_CASE("without a SIGCONT it stays stopped after the release") {
  Child child;
  child.is_sent(SIGSTOP);
  HeldProcesses held;
  held.hold(child.list());
  held.release();
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(child.runs());
  child.is_sent(SIGCONT);
  CHECK(child.runs_soon());
}

TEST_CASE("one that runs is found, and runs on") {
  Child child;
  CHECK(child.runs());
  HeldProcesses held;
  held.hold(child.list());
  CHECK(child.runs());
  held.release();
  CHECK(child.runs());
}

TEST_CASE("one that is killed meanwhile can be reaped by its parent") {
  auto child = std::make_unique<Child>();
  child->is_sent(SIGSTOP);
  HeldProcesses held;
  held.hold(child->list());
  child->is_sent(SIGKILL);
  for (int i = 0; i < 500 && held.holds(child->pid); i++) {
    std::this_thread::sleep_for(10ms);
    held.reap();
  }
  CHECK_FALSE(held.holds(child->pid));
}
