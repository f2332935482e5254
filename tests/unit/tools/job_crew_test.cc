// SPDX-License-Identifier: Apache-2.0
#include "tools/job/crew.h"

#include <poll.h>
#include <stdlib.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "tools/job/entrance.h"
#include "tools/job/tcp.h"

namespace ckpt::test {
using namespace tools;
namespace {

using namespace std::chrono_literals;

struct JobsFolder {
  std::string path = "/tmp/ckpt-crew-XXXXXX";
  JobsFolder() { REQUIRE(::mkdtemp(path.data())); }
  ~JobsFolder() { std::filesystem::remove_all(path); }
};

// A member that answers the coordinator after `delay`, in a thread.
struct CrewMember {
  CrewMember(const JobFolder &job, std::string name, std::chrono::milliseconds delay) {
    auto listening = listen_tcp({});
    REQUIRE(listening);
    port = listening->second;
    entrance = std::move(*Entrance::open(std::move(listening->first), job.key()));
    thread = std::thread([this, key = job.key(), name = std::move(name), delay] {
      std::optional<Opening> coordinator = wait();
      if (!coordinator) return;
      Bytes state = coordinator->state();
      Result<Channel> c = Channel::resume(coordinator->take_socket(), key, state);
      if (!c || !c->receive(Clock::now() + 60s)) return;
      std::this_thread::sleep_for(delay);
      (void)c->send(static_cast<u16>(JobMessage::Welcome), Writer().str(name).bytes());
      channel = std::make_unique<Channel>(std::move(*c));
    });
  }
  ~CrewMember() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
  std::optional<Opening> wait() {
    for (auto end = Clock::now() + 60s; Clock::now() < end;) {
      pollfd p{entrance->fd(), POLLIN, 0};
      ::poll(&p, 1, 10);
      std::vector<Opening> in = entrance->turn(Clock::now());
      if (!in.empty()) return std::move(in.front());
    }
    return std::nullopt;
  }

  u16 port = 0;
  std::unique_ptr<Entrance> entrance;
  std::unique_ptr<Channel> channel;
  std::thread thread;
};

TEST_CASE("members hear from the coordinator while it connects to the others") {
  JobsFolder parent;
  Result<JobFolder> job = JobFolder::create(parent.path + "/job");
  REQUIRE(job);
  CrewMember first(*job, "a", 0ms), slow(*job, "b", 1500ms), last(*job, "c", 0ms);
  Crew crew(*job, [] { return Result<>{}; });
  MemberAddress at{{"127.0.0.1"}, first.port};
  REQUIRE(crew.add("a", at, {}));
  at.port = slow.port;
  REQUIRE(crew.add("b", at, {}));
  at.port = last.port;
  REQUIRE(crew.add("c", at, {}));
  for (CrewMember *m : {&first, &slow, &last}) m->join();
  REQUIRE(first.channel);
  Result<Channel::Frame> heard = first.channel->receive(Clock::now() + 10s);
  REQUIRE(heard);
  CHECK(heard->type == static_cast<u16>(JobMessage::Alive));
}

}  // namespace
}  // namespace ckpt::test
