// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "softcuda/broker/broker.h"
#include "softcuda/device/memory.h"

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

class Limited : public Budget {
 public:
  explicit Limited(u64 bytes) : left(bytes) {}
  bool take(u32, u64 bytes) override { return bytes <= left && (left -= bytes, true); }
  void give(u32, u64 bytes) override { left += bytes; }
  u64 left;
};

// Two windows of 8 TiB do not fit beside ThreadSanitizer's own memory.
#if defined(__SANITIZE_THREAD__)
constexpr bool kHasWindows = false;
#else
constexpr bool kHasWindows = true;
#endif

}  // namespace

TEST_CASE("spans are cut and become one again") {
  Spans s(0x1000, 0x1000);
  CHECK(s.take(0x100, 0x100) == 0x1000);
  CHECK(s.take_at(0x1800, 0x100));
  CHECK_FALSE(s.take_at(0x1880, 0x10));
  CHECK(s.take(0x700, 0x100) == 0x1100);
  CHECK_FALSE(s.take(0x800, 1));
  s.give(0x1000, 0x100);
  s.give(0x1800, 0x100);
  s.give(0x1100, 0x700);
  CHECK(s.holds(0x1000, 0x1000));
}

TEST_CASE("device memory is accounted in chunks and comes back") {
  if (!kHasWindows) {
    MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves no room)");
    return;
  }
  Limited budget(8 * kChunkBytes);
  Memory memory(budget);
  std::optional<Allocation> a = memory.allocate(0, 100, MemoryKind::Device, nullptr);
  std::optional<Allocation> b = memory.allocate(0, 100, MemoryKind::Device, nullptr);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->base != b->base);
  CHECK(budget.left == 7 * kChunkBytes);
  CHECK_FALSE(memory.allocate(0, 8 * kChunkBytes, MemoryKind::Device, nullptr));
  std::optional<Allocation> big =
      memory.allocate(0, 3 * kChunkBytes + 1, MemoryKind::Device, nullptr);
  REQUIRE(big);
  CHECK(budget.left == 3 * kChunkBytes);
  CHECK(memory.host(a->base, 512) != nullptr);
  CHECK(memory.host(a->base, 513) == nullptr);
  CHECK(memory.in_window(a->base));
  CHECK_FALSE(memory.release(a->base + 1, MemoryKind::Device));
  CHECK(memory.release(a->base, MemoryKind::Device));
  CHECK(memory.release(b->base, MemoryKind::Device));
  CHECK(memory.release(big->base, MemoryKind::Device));
  CHECK(budget.left == 8 * kChunkBytes);
}

TEST_CASE("device memory goes for a checkpoint and returns to its addresses") {
  if (!kHasWindows) {
    MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves no room)");
    return;
  }
  Limited budget(8 * kChunkBytes);
  Memory memory(budget);
  std::optional<Allocation> a = memory.allocate(0, 64, MemoryKind::Device, nullptr);
  std::optional<Allocation> b = memory.allocate(0, kChunkBytes, MemoryKind::Device, nullptr);
  std::memcpy(memory.host(a->base, 64), "small", 6);
  std::memcpy(memory.host(b->base, 64), "large", 6);
  REQUIRE(memory.save_device_memory());
  CHECK(budget.left == 8 * kChunkBytes);
  // Nothing is restored where there is no room, and it may be tried again.
  u64 left = std::exchange(budget.left, kChunkBytes);
  CHECK_FALSE(memory.restore_device_memory());
  CHECK(budget.left == kChunkBytes);
  budget.left = left;
  REQUIRE(memory.restore_device_memory());
  CHECK(budget.left == 6 * kChunkBytes);
  CHECK(std::string(memory.host(a->base, 64)) == "small");
  CHECK(std::string(memory.host(b->base, 64)) == "large");
}

TEST_CASE("the broker's configuration is read strictly") {
  CHECK(broker::parse_configuration("")->text() == "1x4096M");
  CHECK(broker::parse_configuration("4x4800M")->text() == "4x4800M");
  CHECK(broker::parse_configuration("2x8G")->bytes == 8ull << 30);
  for (const char *bad :
       {"0x4G", "4", "4x", "4x4", "4x4T", "x4G", "99x4G", "1x1M", "1x99999999999G", "2x2G "})
    CHECK_FALSE(broker::parse_configuration(bad));
}

TEST_CASE("a peer that lies to the broker is hung up on, and others are served") {
  char folder[] = "/tmp/softcuda-test-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  std::string path = std::string(folder) + "/s";
  Result<UniqueFd> listener = listen_unix(path);
  REQUIRE(listener);
  broker::Broker b(*broker::parse_configuration("1x64M"), std::move(*listener), "seed");
  std::thread loop([&] { CHECK(b.run()); });

  auto send = [](const UniqueFd &fd, broker::Request type, const Writer &w) {
    return send_message(fd.get(), static_cast<u16>(type), w.bytes()).has_value();
  };
  auto answer = [](const UniqueFd &fd) {
    Result<std::optional<Message>> m = receive_message(fd.get());
    return m && *m ? static_cast<int>((*m)->reader().get<u8>()) : -1;
  };
  Writer good, lie, wrong;
  good.put<u32>(0).put<u64>(40u << 20);
  lie.put<u32>(0).put<u64>(1);
  wrong.put<u32>(7).put<u64>(1);
  {
    UniqueFd honest = *connect_unix(path), liar = *connect_unix(path), fool = *connect_unix(path);
    REQUIRE(send(honest, broker::Request::Take, good));
    CHECK(answer(honest) == 1);
    REQUIRE(send(liar, broker::Request::Give, lie));  // what it never had
    CHECK(answer(liar) == -1);
    REQUIRE(send(fool, broker::Request::Take, wrong));
    CHECK(answer(fool) == -1);
    UniqueFd second = *connect_unix(path);
    REQUIRE(send(second, broker::Request::Take, good));
    CHECK(answer(second) == 0);
    honest.reset();
    int got = 0;
    for (int i = 0; i < 200 && got == 0; ++i) {
      REQUIRE(send(second, broker::Request::Take, good));
      got = answer(second);
    }
    CHECK(got == 1);
  }
  loop.join();
  unlink(path.c_str());
  rmdir(folder);
}
