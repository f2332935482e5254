// SPDX-License-Identifier: Apache-2.0
//
// What the daemon remembers in addition to the policy.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "manager/daemon/measure/disconnected_clients.h"
#include "manager/daemon/measure/exiting_clients.h"
#include "manager/daemon/report/counters.h"
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

constexpr ProgramId kOne = 1, kOther = 2;

// A child process that lives until end().
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
    REQUIRE(pid_ > 0);
  }
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("a process that outlives its announced exit does not count as exiting") {
  ExitingClients d;
  d.add(1s, 7);
  d.add(5s, 7);  // again
  d.add(5s, 8);
  CHECK(d.is_exiting(1s + ExitingClients::kGrace - 1ms, 7));
  CHECK_FALSE(d.is_exiting(1s + ExitingClients::kGrace, 7));
  CHECK(d.is_exiting(1s + ExitingClients::kGrace, 8));
  CHECK_FALSE(d.is_exiting(1s, 9));
  d.keep({7});
  CHECK(d.contains(7));
  CHECK_FALSE(d.contains(8));
}

TEST_CASE("requests that end without an answer are forgotten") {
  Counters c;
  auto hear = [&c](ProgramId id, const managed::ToManager &m) { c.heard(Time{0}, id, m, {}); };
  for (u32 ticket = 1; ticket < 100; ticket++) {
    hear(kOne, in::CudaMalloc{ticket, 1});
    CHECK(c.open_requests() == 1);
    hear(kOne, in::MallocDone{ticket, 1});
    hear(kOne, in::Load{ticket, 1, false});
    CHECK(c.open_requests() == 1);
    hear(kOne, in::LoadDone{ticket, 1, 0, false});
  }
  CHECK(c.open_requests() == 0);
  hear(kOther, in::CudaMalloc{7, 1});
  hear(kOne, in::CudaMalloc{7, 1});
  hear(kOne, in::Connect{});
  CHECK(c.open_requests() == 3);
  hear(kOne, in::Join{});
  CHECK(c.open_requests() == 1);
  c.ordered(Time{5}, {{kOther, out::GoAhead{7}}});
  CHECK(c.open_requests() == 0);
  CHECK(c.waits == 1);
  CHECK(c.waited == Time{5});
}

TEST_CASE("requests that are never answered are bounded") {
  Node node({}, {1000 * kMiB});
  Counters c;
  auto hear = [&](const managed::ToManager &m) {
    Counters::Before before = Counters::before(node.policy.find(kOne));
    Orders orders = node.say(kOne, m);
    c.heard(node.now, kOne, m, before);
    c.ordered(node.now, orders);
  };
  auto ask_much = [&] {
    for (u32 ticket = 1; ticket <= 5000; ticket++) hear(in::CudaMalloc{ticket, 1});
  };
  hear(in::Uses{managed::kCuda});
  ask_much();
  CHECK(c.open_requests() == 0);
  // It is evicted, and asks: the policy keeps at most 1024 requests.
  hear(in::Join{.version = managed::kVersion, .standing = managed::Standing::Suspended});
  ask_much();
  CHECK(c.open_requests() == 1024);
  hear(in::Fin{});
  ask_much();
  CHECK(c.open_requests() == 0);
}

TEST_CASE("the memory of a disconnected program counts once, while it is alive") {
  DisconnectedClients disconnected;
  Child child;
  disconnected.add(child.pid(), 0, 100);
  disconnected.add(child.pid(), 1, 7);
  disconnected.add(child.pid(), 0, 200);  // it was connected in between
  CHECK(disconnected.bytes(0) == 200);
  CHECK(disconnected.bytes(1) == 7);
  child.end();
  CHECK(disconnected.bytes(0) == 0);
  CHECK(disconnected.bytes(1) == 0);
}
