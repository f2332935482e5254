// SPDX-License-Identifier: Apache-2.0
#include "tools/job/entrance.h"

#include <poll.h>
#include <sys/socket.h>

#include <doctest/doctest.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "tools/job/tcp.h"

using namespace ckpt;
using namespace ckpt::tools;
using namespace std::chrono_literals;
using Side = Channel::Side;

namespace {

storage::Key key_of(std::byte b) { return *storage::Key::from_bytes(Bytes(32, b)); }
const storage::Key kKey = key_of(std::byte{1});

struct Member {
  Member() {
    auto listening = listen_tcp({});
    REQUIRE(listening);
    port = listening->second;
    entrance = std::move(*Entrance::open(std::move(listening->first), kKey));
  }
  UniqueFd connect() {
    auto socket = connect_tcp("127.0.0.1", port, 60s);
    REQUIRE(socket);
    return std::move(*socket);
  }
  // The first one that is let in within the time; no value: none.
  std::optional<Opening> wait(std::chrono::milliseconds time = 60s) {
    for (auto end = std::chrono::steady_clock::now() + time;;) {
      pollfd p{entrance->fd(), POLLIN, 0};
      ::poll(&p, 1, 10);
      auto now = std::chrono::steady_clock::now();
      std::vector<Opening> in = entrance->turn(now + ahead);
      if (!in.empty()) return std::move(in.front());
      if (now > end) return std::nullopt;
    }
  }

  u16 port = 0;
  std::unique_ptr<Entrance> entrance;
  std::chrono::milliseconds ahead{0};  // by which the entrance's clock is
};

// A coordinator, in a thread, which sends one message and returns the answer.
struct Coordinator {
  Coordinator(UniqueFd socket, const storage::Key &key)
      : thread([this, fd = std::move(socket), key]() mutable {
          Result<Channel> c = Channel::open(std::move(fd), key, Side::Coordinator);
          if (!c || !c->send(7, view("task"))) return;
          Result<Channel::Frame> f = c->receive(Clock::now() + 60s);
          if (f) answer = text(f->body);
        }) {}
  ~Coordinator() {
    if (thread.joinable()) thread.join();
  }
  std::string answer;
  std::thread thread;
};

// As the process that goes on with the connection does.
void serve(Opening opening) {
  Bytes state = opening.state();
  Result<Channel> c = Channel::resume(opening.take_socket(), kKey, state);
  REQUIRE(c);
  Result<Channel::Frame> f = c->receive(Clock::now() + 60s);
  REQUIRE(f);
  CHECK(f->type == 7);
  CHECK(text(f->body) == "task");
  CHECK(c->send(8, view("done")));
}

}  // namespace

TEST_CASE("a peer with the key is let in, and another process goes on with the connection") {
  Member m;
  Coordinator c(m.connect(), kKey);
  std::optional<Opening> in = m.wait();
  REQUIRE(in);
  serve(std::move(*in));
  c.thread.join();
  CHECK(c.answer == "done");
}

TEST_CASE("peers without the key are not let in, whatever they send") {
  Member m;
  Bytes greeting(40, std::byte{7});
  std::memcpy(greeting.data(), "ckptjob2", 8);
  std::vector<UniqueFd> peers;
  for (const Bytes &more : {Bytes(), Bytes(3), Bytes(4, std::byte{0xff}), Bytes(4000)}) {
    peers.push_back(m.connect());
    REQUIRE(write_all(peers.back().get(), greeting));
    REQUIRE(write_all(peers.back().get(), more));
  }
  peers.push_back(m.connect());
  REQUIRE(
      write_all(peers.back().get(), view("GET / HTTP/1.1\r\n\r\n, and so on, for forty bytes")));
  CHECK_FALSE(m.wait(200ms));
  UniqueFd socket = m.connect();
  Coordinator wrong(std::move(socket), key_of(std::byte{2}));
  CHECK_FALSE(m.wait(200ms));
}

TEST_CASE("a coordinator is let in during a flood of silent and of stalled peers") {
  Member m;
  Bytes half(40, std::byte{7});
  std::memcpy(half.data(), "ckptjob2", 8);
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 150; i++) {
    peers.push_back(m.connect());
    if (i % 2) REQUIRE(write_all(peers.back().get(), half));
    m.entrance->turn(std::chrono::steady_clock::now());
  }
  m.ahead = 2s;  // the stalled ones have had their fair time
  Coordinator c(m.connect(), kKey);
  std::optional<Opening> in = m.wait();
  REQUIRE(in);
  serve(std::move(*in));
}
