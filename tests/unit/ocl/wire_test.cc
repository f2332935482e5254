// SPDX-License-Identifier: Apache-2.0
//
// The proxy's end of the ring, against a client that writes valid and damaged commands by hand.
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "common/base/futex.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/proxy/device/mapping.h"
#include "ring/channel.h"
#include "ring/output_ring.h"

using namespace ckpt;
using namespace ckpt::ocl;

namespace {

struct Pair {
  Channel channel;
  Mapping memory;
  UniqueFd client;

  static Pair make() {
    auto channel = Channel::make();
    REQUIRE(channel);
    auto memory = Mapping::map(channel->memory_fd(), kRingBytes);
    REQUIRE(memory);
    auto sockets = socket_pair();
    REQUIRE(sockets);
    Pair p{std::move(*channel), std::move(*memory), std::move(sockets->first)};
    p.channel.connect(std::move(sockets->second));
    return p;
  }
  Header &header() { return *reinterpret_cast<Header *>(memory.data()); }
  void write(u64 at, const CommandHeader &h, std::string_view payload) {
    std::byte *p = memory.data() + kCommandsAt + at % kCommandRingBytes;
    std::memcpy(p, &h, sizeof h);
    std::memcpy(p + sizeof h, payload.data(), payload.size());
  }
};

}  // namespace

TEST_CASE("commands arrive as they were sent, also across the end of the ring") {
  Pair p = Pair::make();
  std::string payload(40'000, 'x');
  u64 at = 0;
  for (u16 i = 0; i < 100; i++) {
    u64 length = sizeof(CommandHeader) + payload.size();
    u64 to_end = kCommandRingBytes - at % kCommandRingBytes;
    if (to_end < length) {
      p.write(at, {kWrap, 0, 0, 0}, "");
      at += to_end;
    }
    p.write(at, {static_cast<u32>(payload.size()), i, 0, i}, payload);
    at += length;
    p.header().command_head = at;
    auto c = p.channel.next();
    REQUIRE(c);
    CHECK(c->header.op == i);
    CHECK(c->payload.size() == payload.size());
    p.channel.done();
    CHECK(p.header().command_tail == at);
  }
}

TEST_CASE("a payload may arrive on the socket") {
  Pair p = Pair::make();
  std::string big(500'000, 'y');
  std::thread sender([&] { CHECK(send_message(p.client.get(), kPayload, view(big))); });
  p.write(0, {static_cast<u32>(big.size()), 5, kOnSocket, 0}, "");
  p.header().command_head = sizeof(CommandHeader);
  auto c = p.channel.next();
  sender.join();
  REQUIRE(c);
  CHECK(text(c->payload) == big);
}

TEST_CASE("a damaged ring ends the service without a read out of bounds") {
  Pair p = Pair::make();
  SUBCASE("longer than the written bytes") {
    p.write(0, {1000, 1, 0, 0}, "short");
    p.header().command_head = 24;
  }
  SUBCASE("longer than the ring") {
    p.write(0, {0xfffffff0, 1, 0, 0}, "");
    p.header().command_head = kCommandRingBytes;
  }
  SUBCASE("a head far beyond the ring") {
    p.write(0, {8, 1, 0, 0}, "12345678");
    p.header().command_head = ~u64{0} / 2;
  }
  CHECK_FALSE(p.channel.next());
}

TEST_CASE("the service ends when the client hangs up") {
  Pair p = Pair::make();
  p.client.reset();
  CHECK_FALSE(p.channel.next());
}

TEST_CASE("staging offsets are checked") {
  Pair p = Pair::make();
  CHECK(p.channel.staging(0, kStagingBytes));
  CHECK_FALSE(p.channel.staging(1, kStagingBytes));
  CHECK_FALSE(p.channel.staging(~u64{0}, 2));
}

TEST_CASE("completions wait for room, and none is lost") {
  Pair p = Pair::make();
  constexpr u64 n = kCompletions * 3;
  std::thread proxy([&] {
    for (u64 i = 0; i < n; i++) p.channel.complete({i, 0, 0, 0, 0, 0, 0});
  });
  for (u64 tail = 0; tail < n;) {
    if (p.header().completion_head.load() == tail) continue;
    Completion c;
    std::memcpy(&c, p.memory.data() + kCompletionsAt + tail % kCompletions * sizeof c, sizeof c);
    REQUIRE(c.event == tail);
    p.header().completion_tail = ++tail;
  }
  proxy.join();
}

TEST_CASE("a container survives packing, and other bytes are not taken for one") {
  Container c{
      "driver", "-O", "source", {{"unit", "-D A", {{"a.h", "text"}}}}, Bytes(100, std::byte{7})};
  Bytes b = c.pack();
  auto again = Container::unpack(b);
  REQUIRE(again);
  CHECK(again->device == c.device);
  CHECK(again->options == c.options);
  CHECK(again->source == c.source);
  CHECK(again->native == c.native);
  REQUIRE(again->units.size() == 1);
  CHECK(again->units[0].headers[0].source == "text");
  for (size_t n = 0; n < b.size(); n++) CHECK_FALSE(Container::unpack(ByteView(b).first(n)));
  b.push_back({});
  CHECK_FALSE(Container::unpack(b));
  CHECK_FALSE(
      Container::unpack(view("\x7f"
                             "ELF and so on")));
}

TEST_CASE("device mapping") {
  RealPlatform a{nullptr, "A", {{nullptr, "0.0", "cpu", 0, 0}, {nullptr, "0.1", "cpu", 0, 1}}};
  RealPlatform b{nullptr, "B", {{nullptr, "1.0", "gpu", 0, 0}}};
  ProgramDevice used{1, true, "A", "cpu", 1}, unused{2, false, "C", "x", 0},
      elsewhere{3, true, "C", "x", 0};
  std::vector<RealPlatform> both{a, b}, only_b{b};  // the results point into these
  SUBCASE("an identical device, by name and position") {
    auto m = map_program_devices({used, unused}, both, false);
    REQUIRE(m);
    CHECK((*m)[0]->key == "0.1");
    CHECK((*m)[1] == nullptr);
  }
  SUBCASE("a missing used device is refused by name") {
    auto m = map_program_devices({elsewhere}, both, false);
    REQUIRE_FALSE(m);
    CHECK(m.error().what.find("\"x\" of \"C\"") != std::string::npos);
  }
  SUBCASE("a missing used device maps to the chosen one") {
    auto m = map_program_devices({elsewhere}, only_b, true);
    REQUIRE(m);
    CHECK((*m)[0]->key == "1.0");
  }
  SUBCASE("the last chosen device stands for the rest") {
    auto m = map_program_devices({elsewhere, used, elsewhere}, only_b, true);
    REQUIRE(m);
    CHECK((*m)[2]->key == "1.0");
  }
}

TEST_CASE(
    "what kernels print arrives in order, also across the end of its ring, and waits for room") {
  Pair p = Pair::make();
  Header &h = p.header();
  std::string sent, received;
  auto text = [](int i) {
    return std::string(1 + static_cast<size_t>(i) * 37 % kMostInRecord, 'a' + i % 26);
  };
  auto view_of = [](const std::string &s) { return view(s.data(), s.size()); };
  CHECK_FALSE(p.channel.output(OutputWay::Direct, view_of("lost")));
  h.takes_output = 1;
  std::thread proxy([&] {
    for (int i = 0; i < 500; i++)
      CHECK(p.channel.output(i % 2 ? OutputWay::Direct : OutputWay::Buffered, view_of(text(i))));
  });
  for (int i = 0; i < 500; i++) sent += text(i);
  while (received.size() < sent.size()) {
    u64 tail = h.output_tail, head = h.output_head;
    REQUIRE(each_output(p.memory.data(), tail, head,
                        [&](OutputWay, std::string part) { received += part; }));
    h.output_tail = head;
    ckpt::ring(h.proxy_bell, h.proxy_waits);
    std::this_thread::yield();
  }
  proxy.join();
  CHECK(received == sent);
}

TEST_CASE("a damaged ring of output is found, whatever it holds") {
  std::vector<std::byte> memory(kCommandsAt);
  std::mt19937 random(3);
  auto ignore = [](OutputWay, const std::string &) {};
  for (int i = 0; i < 2000; i++) {
    for (std::byte &b : memory) b = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
    u64 tail = random() % 10000;
    each_output(memory.data(), tail, tail + random() % (2 * kOutputBytes), ignore);
  }
  CHECK_FALSE(each_output(memory.data(), 0, kOutputBytes + 4, ignore));
  CHECK_FALSE(each_output(memory.data(), 4, 0, ignore));
  CHECK_FALSE(each_output(memory.data(), 0, 3, ignore));
}
