// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/held_program.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace ckpt::test {
using namespace tools;
using namespace std::chrono_literals;
namespace {

// A program of one process, as a dump finds it.
struct OneProcess {
  OneProcess() : pid(::fork()) {
    while (pid == 0) ::pause();
    target.root = pid;
    target.root_handle = std::move(*ProcessHandle::open(pid));
    find();
  }
  ~OneProcess() { end(); }
  void end() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void find() { target.processes = ProcessTable::read().tree(pid); }
  bool stands() const {
    Result<Process> p = read_process(pid);
    return p && (p->state == 'T' || p->state == 't');
  }
  bool stands_soon(bool expected) const {
    for (int i = 0; i < 500 && stands() != expected; i++) std::this_thread::sleep_for(10ms);
    return stands() == expected;
  }
  void is_stopped() {
    ::kill(pid, SIGSTOP);
    REQUIRE(stands_soon(true));
  }
  pid_t pid;
  Target target;
};

}  // namespace

TEST_CASE("what CRIU has left stopped is held until it goes on") {
  OneProcess one;
  HeldProgram program(one.target);
  program.note_found();
  one.is_stopped();
  program.note_stopped();
  REQUIRE(program.hold());
  ::kill(one.pid, SIGCONT);
  std::this_thread::sleep_for(50ms);
  CHECK(program.check_held());
  CHECK(one.stands());
  program.go_on({});
  CHECK(one.stands_soon(false));
  CHECK(program.check_held());  // it runs again, as it should
}

TEST_CASE("what its user had stopped before the dump stays stopped") {
  OneProcess one;
  one.is_stopped();
  one.find();
  HeldProgram program(one.target);
  program.note_found();
  program.note_stopped();
  REQUIRE(program.hold());
  program.undo({});
  std::this_thread::sleep_for(50ms);
  CHECK(one.stands());
}

TEST_CASE("a program that was continued and is not held makes the dump begin again") {
  OneProcess one;
  HeldProgram program(one.target);
  program.note_found();
  CHECK(program.check_held());  // CRIU has not stopped it
  program.note_stopped();
  Result<> held = program.check_held();
  REQUIRE_FALSE(held);
  CHECK(held.error().what.find("was continued by a signal") != std::string::npos);
  CHECK(program.was_continued());
}

TEST_CASE("a stop that takes effect after CRIU has failed is undone") {
  OneProcess one;
  HeldProgram program(one.target);
  program.note_found();
  std::thread late([&] {
    std::this_thread::sleep_for(20ms);
    ::kill(one.pid, SIGSTOP);
  });
  program.expect_stop();
  late.join();
  CHECK(program.is_stopped());
  CHECK(one.stands());
  program.undo({});
  CHECK(one.stands_soon(false));
}

TEST_CASE("a process that is killed while it is read is noticed, also under the same PID") {
  OneProcess one;
  HeldProgram program(one.target);
  CHECK(program.check_none_killed());
  one.target.processes.front().start_ticks++;
  CHECK_FALSE(program.check_none_killed());
  one.find();
  one.end();
  CHECK_FALSE(program.check_none_killed());
  CHECK_FALSE(program.find_processes());
}

TEST_CASE("a killed program has ended when its PIDs are free") {
  OneProcess one;
  HeldProgram program(one.target);
  program.note_found();
  one.is_stopped();
  program.note_stopped();
  REQUIRE(program.hold());
  REQUIRE(program.open_handles());
  program.kill();
  std::thread parent([&] { ::waitpid(one.pid, nullptr, 0); });
  CHECK(program.wait_for_end("job.img"));
  parent.join();
  CHECK_FALSE(read_process(one.pid));
}

}  // namespace ckpt::test
