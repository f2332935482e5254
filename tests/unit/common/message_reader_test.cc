// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/message_reader.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <doctest/doctest.h>

using namespace ckpt;
using namespace std::chrono_literals;

namespace {

struct Pair {
  Pair() {
    auto pair = socket_pair();
    REQUIRE(pair);
    here = std::move(pair->first);
    there = std::move(pair->second);
  }
  UniqueFd here, there;
};

}  // namespace

TEST_CASE("a message that comes byte by byte never blocks its reader") {
  Pair p;
  MessageReader reader(100);
  u32 header[2] = {5, 9};
  Bytes all = Writer().raw(header, sizeof header).raw("hello", 5).take();
  CHECK_FALSE(reader.has_begun());
  for (std::byte b : all) {
    CHECK_FALSE(reader.ready());
    REQUIRE(write_all(p.there.get(), {&b, 1}));
    REQUIRE(reader.receive(p.here.get(), MSG_DONTWAIT));
    CHECK(reader.has_begun());
    if (!reader.ready()) CHECK_FALSE(reader.receive(p.here.get(), MSG_DONTWAIT));
  }
  REQUIRE(reader.ready());
  Message m = reader.take();
  CHECK(m.type == 9);
  CHECK(text(m.body) == "hello");
  CHECK_FALSE(reader.has_begun());
}

TEST_CASE("nothing behind a message is read, so its descriptors stay its own") {
  Pair p;
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  int fds[] = {null.get()};
  REQUIRE(send_message(p.there.get(), 1, view("first")));
  REQUIRE(send_message(p.there.get(), 2, view("second"), fds));
  MessageReader reader(100);
  while (!reader.ready()) REQUIRE(reader.receive(p.here.get(), MSG_DONTWAIT));
  CHECK(reader.take().fds.empty());
  while (!reader.ready()) REQUIRE(reader.receive(p.here.get(), MSG_DONTWAIT));
  CHECK(reader.take().fds.size() == 1);
}

TEST_CASE("a message says which process has sent it, and that several have") {
  Pair p;
  int yes = 1;
  REQUIRE(::setsockopt(p.here.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0);
  auto in_child = [&](ByteView bytes) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(write_all(p.there.get(), bytes) ? 0 : 1);
    int status = 1;
    ::waitpid(child, &status, 0);
    REQUIRE(status == 0);
    return child;
  };
  auto receive = [&] {
    MessageReader reader(100);
    while (!reader.ready()) REQUIRE(reader.receive(p.here.get(), MSG_DONTWAIT));
    pid_t sender = -1;
    reader.take(&sender);
    return sender;
  };
  u32 header[2] = {5, 9};
  Bytes all = Writer().raw(header, sizeof header).raw("hello", 5).take();
  REQUIRE(write_all(p.there.get(), all));
  CHECK(receive() == ::getpid());
  pid_t child = in_child(all);
  CHECK(receive() == child);
  in_child(ByteView(all).first(10));
  REQUIRE(write_all(p.there.get(), ByteView(all).subspan(10)));
  CHECK(receive() == 0);
}

TEST_CASE("a deadline is for a whole message") {
  Pair p;
  u32 header[2] = {5, 9};
  REQUIRE(write_all(p.there.get(), view(header, sizeof header)));
  auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(receive_message(p.here.get(), 100, begin + 20ms));
  CHECK(std::chrono::steady_clock::now() >= begin + 20ms);
  REQUIRE(send_message(p.there.get(), 1));
}

TEST_CASE("a peer that does not read is an error, and does not block the sender") {
  Pair p;
  Bytes body(64u << 10);
  Result<> sent;
  for (int i = 0; i < 10'000 && sent; i++) sent = send_message_at_once(p.here.get(), 1, body);
  REQUIRE_FALSE(sent);
  CHECK(sent.error().what.find("does not read") != std::string::npos);
}
