// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/connection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "common/ipc/unix_socket.h"
#include "remote/transport/address.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

struct Ends {
  Connection a, b;
};

Ends make_ends() {
  auto pair = socket_pair();
  REQUIRE(pair);
  return {Connection(std::make_unique<SocketStream>(std::move(pair->first))),
          Connection(std::make_unique<SocketStream>(std::move(pair->second)))};
}

}  // namespace

TEST_CASE("frames and their bulk arrive in order, whatever their sizes") {
  Ends ends = make_ends();
  std::vector<size_t> sizes = {0, 1, 7, 4096, 70'000, 3'000'000, 0, 13};
  std::thread sender([&] {
    Connection::Batch batch;
    for (size_t n : sizes) {
      Bytes body(n / 2 + 1, std::byte{1}), bulk(n, std::byte{2});
      batch.add(Frame::Command, {body});
      REQUIRE(ends.a.send(batch, bulk));
    }
  });
  for (size_t n : sizes) {
    auto frame = ends.b.receive();
    REQUIRE(frame);
    CHECK(frame->body.size() == n / 2 + 1);
    Bytes bulk(n);
    REQUIRE(ends.b.receive_bulk(bulk));
    CHECK(bulk == Bytes(n, std::byte{2}));
  }
  sender.join();
}

TEST_CASE("a frame that is too long is an error, and nothing is kept for it") {
  Ends ends = make_ends();
  FrameHeader h{0xffffffff, 2, 0};
  REQUIRE(ends.a.stream().write(view(&h, sizeof h)));
  CHECK_FALSE(ends.b.receive());
}

TEST_CASE("a hang-up between frames is an end, and one inside a frame is not") {
  for (bool inside : {false, true}) {
    Ends ends = make_ends();
    FrameHeader h{100, 2, 0};
    if (inside) REQUIRE(ends.a.stream().write(view(&h, sizeof h)));
    ends.a.stream().shut_down();
    CHECK_FALSE(ends.b.receive());
    CHECK(ends.b.ended() == !inside);
  }
}

TEST_CASE("random bytes never make more memory than they have") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; round++) {
    Ends ends = make_ends();
    Bytes noise(random() % 400);
    for (std::byte &b : noise) b = static_cast<std::byte>(random());
    REQUIRE(ends.a.stream().write(noise));
    ends.a.stream().shut_down();
    while (ends.b.receive()) {
    }
  }
}

TEST_CASE("addresses of ckpt-devd") {
  CHECK(Address::parse("gpu1")->text() == "gpu1:7667");
  CHECK(Address::parse("gpu1:80")->port == 80);
  CHECK(Address::parse("[fe80::1]:80")->host == "fe80::1");
  CHECK(Address::parse("[fe80::1]")->text() == "[fe80::1]:7667");
  CHECK(Address::parse("/run/s")->path == "/run/s");
  for (const char *bad : {"", ":80", "gpu1:", "gpu1:x", "gpu1:99999", "[fe80::1", "gpu1:80x"})
    CHECK_FALSE(Address::parse(bad));
}
