// SPDX-License-Identifier: Apache-2.0
#include "tools/job/channel.h"

#include <sys/socket.h>

#include <doctest/doctest.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/io.h"

using namespace ckpt;
using namespace ckpt::tools;
using namespace std::chrono_literals;
using Side = Channel::Side;

namespace {

storage::Key key_of(std::byte b) { return *storage::Key::from_bytes(Bytes(32, b)); }

std::pair<UniqueFd, UniqueFd> sockets() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::pair<Result<Channel>, Result<Channel>> open_both(const storage::Key &a,
                                                      const storage::Key &b) {
  auto [one, two] = sockets();
  Result<Channel> coordinator = Failure(Error{});
  std::thread thread([&, fd = std::move(one)]() mutable {
    coordinator = Channel::open(std::move(fd), a, Side::Coordinator);
  });
  Result<Channel> member = Channel::open(std::move(two), b, Side::Member);
  thread.join();
  return {std::move(coordinator), std::move(member)};
}

auto soon() { return Clock::now() + 5s; }

// What one side sends, as bytes.
Bytes record(int socket) {
  Bytes bytes(4096);
  ssize_t n = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

Bytes greeting() {
  Bytes g(40, std::byte{7});
  std::memcpy(g.data(), "ckptjob2", 8);
  return g;
}

}  // namespace

TEST_CASE("messages arrive in both directions, in order") {
  auto [a, b] = open_both(key_of(std::byte{1}), key_of(std::byte{1}));
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(a->send(3, view("one")));
  REQUIRE(a->send(4, view("two")));
  REQUIRE(b->send(5));
  Result<Channel::Frame> f = b->receive(soon());
  REQUIRE(f);
  CHECK(f->type == 3);
  CHECK(text(f->body) == "one");
  CHECK(text(b->receive(soon())->body) == "two");
  CHECK(a->receive(soon())->type == 5);
}

TEST_CASE("a peer with another key is not heard") {
  auto [a, b] = open_both(key_of(std::byte{1}), key_of(std::byte{2}));
  REQUIRE(a->send(3, view("one")));
  Result<Channel::Frame> f = b->receive(soon());
  REQUIRE_FALSE(f);
  CHECK(f.error().what == "the peer does not have the job's key");
}

TEST_CASE("a message that was changed, or comes back, is not heard") {
  auto [one, two] = sockets();
  REQUIRE(write_all(one.get(), greeting()));
  Result<Channel> member = Channel::open(std::move(two), key_of(std::byte{1}), Side::Member);
  REQUIRE(member);
  Bytes theirs = record(one.get());
  REQUIRE(theirs.size() == 40);
  REQUIRE(member->send(9, view("x")));
  Bytes frame = record(one.get());
  SUBCASE("its own message, sent back") { REQUIRE(write_all(one.get(), frame)); }
  SUBCASE("one that was changed") {
    frame[10] ^= std::byte{1};
    REQUIRE(write_all(one.get(), frame));
  }
  CHECK_FALSE(member->receive(soon()));
}

TEST_CASE("a first message over 4 KiB is refused before it is read") {
  auto [one, two] = sockets();
  REQUIRE(write_all(one.get(), greeting()));
  Result<Channel> member = Channel::open(std::move(two), key_of(std::byte{1}), Side::Member);
  u32 size = 1 << 20;
  REQUIRE(write_all(one.get(), view(&size, sizeof size)));
  Result<Channel::Frame> f = member->receive(soon());
  REQUIRE_FALSE(f);
  CHECK(f.error().what.find("1048576 bytes") != std::string::npos);
}

TEST_CASE("a peer that is not ckpt, sends nothing or hangs up is an error") {
  auto [one, two] = sockets();
  auto open = [&two = two] {
    return Channel::open(std::move(two), key_of(std::byte{1}), Side::Member);
  };
  SUBCASE("another protocol") {
    REQUIRE(write_all(one.get(), Bytes(40, std::byte{'G'})));
    CHECK_FALSE(open());
  }
  SUBCASE("a hang-up") {
    one.reset();
    CHECK_FALSE(open());
  }
  SUBCASE("silence") {
    REQUIRE(write_all(one.get(), greeting()));
    Result<Channel> member = open();
    REQUIRE(member);
    CHECK(member->receive(Clock::now() + 10ms).error().what == "the peer does not answer");
  }
}
