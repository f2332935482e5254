// SPDX-License-Identifier: Apache-2.0
#include "tools/session/shared_events.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr u64 kToken = 7, kOtherProcess = 8, kName = 5;

// A process that does nothing, until it is killed.
class LiveProcess {
 public:
  LiveProcess() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~LiveProcess() { end(); }
  LiveProcess(const LiveProcess &) = delete;
  pid_t pid() const { return pid_; }
  // It stays a zombie, as a process of the program does whose parent does not wait for it.
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

// The keeper's loop.
struct Loop {
  struct Watch {
    int fd;
    std::function<bool()> call;
  };
  std::vector<Watch> watches;
  SharedEvents events{[this](int fd, auto f) { watches.push_back({fd, std::move(f)}); }};

  void turn() {
    std::erase_if(watches, [](const Watch &w) {
      pollfd p{w.fd, POLLIN, 0};
      return ::poll(&p, 1, 0) > 0 && !w.call();
    });
  }
};

EventBoard view(const Result<int> &memory) {
  REQUIRE(memory.has_value());
  Result<EventBoard> board = EventBoard::map(*memory);
  REQUIRE(board.has_value());
  return std::move(*board);
}

}  // namespace

TEST_CASE("all processes get the same board, and each is watched once") {
  Loop loop;
  LiveProcess a, b;
  EventBoard of_a = view(loop.events.join(kToken, a.pid()));
  EventBoard of_b = view(loop.events.join(kOtherProcess, b.pid()));
  view(loop.events.join(kToken, a.pid()));
  CHECK(loop.watches.size() == 2);
  EventBoard::Recording r = of_a.begin(of_a.take_counter(kToken).value());
  CHECK_FALSE(of_b.is_complete(r));
  of_a.complete(r);
  CHECK(of_b.is_complete(r));
}

TEST_CASE("what a process has recorded is complete when it has ended, a zombie included") {
  Loop loop;
  LiveProcess a, b;
  EventBoard board = view(loop.events.join(kToken, a.pid()));
  view(loop.events.join(kOtherProcess, b.pid()));
  EventBoard::Recording of_a = board.begin(board.take_counter(kToken).value()),
                        of_b = board.begin(board.take_counter(kOtherProcess).value());
  u32 slot = board.add_event(kToken, kName, of_a).value();
  loop.turn();
  CHECK_FALSE(board.is_complete(of_a));
  a.kill();
  loop.turn();
  CHECK(board.is_complete(of_a));
  CHECK_FALSE(board.is_complete(of_b));
  CHECK(board.owner_of(slot, kName) == 0);
  CHECK(loop.watches.size() == 1);
}

TEST_CASE("a keeper that ends looks once more") {
  Loop loop;
  LiveProcess a;
  EventBoard board = view(loop.events.join(kToken, a.pid()));
  EventBoard::Recording r = board.begin(board.take_counter(kToken).value());
  loop.events.settle();
  CHECK_FALSE(board.is_complete(r));
  a.end();
  loop.events.settle();
  CHECK(board.is_complete(r));
}

TEST_CASE("a process that is gone cannot join") {
  Loop loop;
  LiveProcess a;
  pid_t pid = a.pid();
  a.end();
  CHECK_FALSE(loop.events.join(kToken, pid).has_value());
  CHECK_FALSE(loop.events.join(kToken, 0).has_value());
}
