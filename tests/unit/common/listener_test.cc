// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/listener.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "common/ipc/unix_socket.h"

using namespace ckpt;
using namespace std::chrono_literals;

namespace {

// A listener with a clock that the test sets.
struct Service {
  explicit Service(Newcomers::Limits limits = {}) {
    char name[] = "/tmp/ckpt-listener-XXXXXX";
    folder = ::mkdtemp(name);
    listener = std::move(*Listener::create("the test", limits));
    REQUIRE(listener->listen(std::move(*listen_unix(folder + "/s")), 7));
  }
  ~Service() { std::filesystem::remove_all(folder); }
  UniqueFd connect() { return std::move(*connect_unix(folder + "/s")); }
  UniqueFd connect_and_speak() {
    UniqueFd fd = connect();
    REQUIRE(send_message(fd.get(), 1));
    return fd;
  }
  bool polled() {
    pollfd p{listener->fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }
  // The first turn accepts, and the second one sees what was sent.
  Listener::Turn turn() {
    listener->turn(now);
    return listener->turn(now);
  }

  std::string folder;
  std::unique_ptr<Listener> listener;
  Listener::Time now = std::chrono::steady_clock::now();
};

bool hung_up(const UniqueFd &fd) {
  pollfd p{fd.get(), POLLIN, 0};
  char byte;
  return ::poll(&p, 1, 0) == 1 && ::recv(fd.get(), &byte, 1, 0) <= 0;
}

}  // namespace

TEST_CASE("a connection is handed out when it has spoken") {
  Service s;
  UniqueFd peer = s.connect();
  CHECK(s.polled());
  CHECK(s.turn().spoke.empty());
  CHECK_FALSE(s.polled());
  REQUIRE(send_message(peer.get(), 5));
  CHECK(s.polled());
  CHECK(s.listener->turn(s.now).spoke.size() == 1);
  CHECK(s.listener->greeting() == 1);
  CHECK_FALSE(s.polled());
}

TEST_CASE("a connection that is handed out has its bytes, its source and its door") {
  Service s;
  UniqueFd peer = s.connect_and_speak();
  Listener::Turn t = s.turn();
  REQUIRE(t.spoke.size() == 1);
  CHECK(t.spoke[0].door == 7);
  CHECK(t.spoke[0].source == fmt::format("uid {}", ::getuid()));
  auto m = receive_message(t.spoke[0].socket.get());
  REQUIRE((m && *m));
  CHECK((*m)->type == 1);
  s.listener->left(t.spoke[0].id);
  CHECK(s.listener->greeting() == 0);
}

TEST_CASE("silent connections lose their places when their time is over") {
  Service s;
  UniqueFd silent = s.connect(), slow = s.connect_and_speak();
  Listener::Turn t = s.turn();
  REQUIRE(t.spoke.size() == 1);
  s.now += 15s;
  t = s.listener->turn(s.now);
  REQUIRE(t.expelled.size() == 2);
  CHECK(t.expelled[0].late);
  CHECK_FALSE(t.expelled[0].handed_out);
  CHECK(t.expelled[1].handed_out);
  CHECK(hung_up(silent));
}

TEST_CASE("the listener wakes its service when a newcomer's time is over") {
  Service s({.time = 50ms});
  UniqueFd silent = s.connect();
  s.turn();
  pollfd p{s.listener->fd(), POLLIN, 0};
  REQUIRE(::poll(&p, 1, 60'000) == 1);
  s.now = std::chrono::steady_clock::now() + 50ms;
  CHECK(s.listener->turn(s.now).expelled.size() == 1);
  CHECK_FALSE(s.polled());
}

TEST_CASE("a connection that needs a place takes that of an older silent one") {
  Service s({.waiting = 4, .waiting_of_source = 4});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 4; i++) silent.push_back(s.connect());
  s.turn();
  UniqueFd honest = s.connect_and_speak();
  Listener::Turn t = s.listener->turn(s.now);
  REQUIRE(t.expelled.size() == 1);
  CHECK_FALSE(t.expelled[0].late);
  CHECK(hung_up(silent[0]));
  CHECK_FALSE(hung_up(silent[1]));
  CHECK(s.listener->turn(s.now).spoke.size() == 1);
}

TEST_CASE("a place that becomes free is given to the next one at once") {
  Service s({.greeting = 1, .greeting_of_source = 1});
  UniqueFd a = s.connect_and_speak(), b = s.connect_and_speak();
  Listener::Turn t = s.turn();
  REQUIRE(t.spoke.size() == 1);
  CHECK_FALSE(s.polled());
  s.listener->left(t.spoke[0].id);
  pollfd p{s.listener->fd(), POLLIN, 0};
  REQUIRE(::poll(&p, 1, 60'000) == 1);
  CHECK(s.listener->turn(s.now).spoke.size() == 1);
}

TEST_CASE("a connection that hangs up before it speaks is forgotten") {
  Service s;
  { UniqueFd peer = s.connect(); }
  Listener::Turn t = s.turn();
  CHECK(t.spoke.empty());
  CHECK(t.expelled.empty());
  CHECK_FALSE(s.polled());
}

TEST_CASE("connections wait while the service has no room") {
  Service s;
  s.listener->set_room(1);
  UniqueFd a = s.connect_and_speak(), b = s.connect_and_speak();
  s.listener->turn(s.now);
  CHECK(s.listener->turn(s.now).spoke.size() == 1);
  s.listener->set_room(0);
  UniqueFd c = s.connect_and_speak();
  CHECK(s.listener->turn(s.now).spoke.empty());
  CHECK_FALSE(s.polled());
  s.listener->set_room(2);
  pollfd p{s.listener->fd(), POLLIN, 0};
  REQUIRE(::poll(&p, 1, 60'000) == 1);
  CHECK(s.listener->turn(s.now).spoke.size() + s.listener->turn(s.now).spoke.size() == 2);
}

TEST_CASE("without descriptors the listener pauses, and accepts later") {
  Service s;
  UniqueFd peer = s.connect_and_speak();
  rlimit before{}, none{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = {3, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  Listener::Turn t = s.turn();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(t.spoke.empty());
  CHECK_FALSE(s.polled());
  s.now += 100ms;
  s.listener->turn(s.now);
  CHECK(s.turn().spoke.size() == 1);
}
