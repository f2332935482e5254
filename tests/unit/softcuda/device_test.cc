// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "softcuda/broker/broker.h"
#include "softcuda/device/memory.h"

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

class LimitedBudget : public Budget {
 public:
  explicit LimitedBudget(u64 bytes) : left(bytes) {}
  bool take(u32, u64 bytes) override {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  }
  void give(u32, u64 bytes) override { left += bytes; }
  u64 left;
};

// Two windows of 8 TiB do not fit next to ThreadSanitizer's own memory.
#if defined(__SANITIZE_THREAD__)
constexpr bool kHasWindows = false;
#else
constexpr bool kHasWindows = true;
#endif

}  // namespace

TEST_CASE("spans are split and merged again") {
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

TEST_CASE("device memory is taken from the budget in granules and returned") {
  if (!kHasWindows) {
    MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves too little address space)");
    return;
  }
  LimitedBudget budget(8 * kGranuleBytes);
  Memory memory(budget);
  std::optional<Allocation> a = memory.allocate(0, 100, MemoryKind::Device, nullptr);
  std::optional<Allocation> b = memory.allocate(0, 100, MemoryKind::Device, nullptr);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->base != b->base);
  CHECK(budget.left == 7 * kGranuleBytes);
  CHECK_FALSE(memory.allocate(0, 8 * kGranuleBytes, MemoryKind::Device, nullptr));
  std::optional<Allocation> big =
      memory.allocate(0, 3 * kGranuleBytes + 1, MemoryKind::Device, nullptr);
  REQUIRE(big);
  CHECK(budget.left == 3 * kGranuleBytes);
  CHECK(memory.host(a->base, 512) != nullptr);
  CHECK(memory.host(a->base, 513) == nullptr);
  CHECK(memory.in_window(a->base));
  CHECK_FALSE(memory.release(a->base + 1, MemoryKind::Device));
  CHECK(memory.release(a->base, MemoryKind::Device));
  CHECK(memory.release(b->base, MemoryKind::Device));
  CHECK(memory.release(big->base, MemoryKind::Device));
  CHECK(budget.left == 8 * kGranuleBytes);
}

TEST_CASE("a checkpoint saves device memory and restores it at its addresses") {
  if (!kHasWindows) {
    MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves too little address space)");
    return;
  }
  LimitedBudget budget(8 * kGranuleBytes);
  Memory memory(budget);
  std::optional<Allocation> a = memory.allocate(0, 64, MemoryKind::Device, nullptr);
  std::optional<Allocation> b = memory.allocate(0, kGranuleBytes, MemoryKind::Device, nullptr);
  std::memcpy(memory.host(a->base, 64), "small", 6);
  std::memcpy(memory.host(b->base, 64), "large", 6);
  REQUIRE(memory.save_device_memory());
  CHECK(budget.left == 8 * kGranuleBytes);
  // A restore with too little free memory restores nothing, and can be tried again.
  u64 left = std::exchange(budget.left, kGranuleBytes);
  CHECK_FALSE(memory.restore_device_memory());
  CHECK(budget.left == kGranuleBytes);
  budget.left = left;
  REQUIRE(memory.restore_device_memory());
  CHECK(budget.left == 6 * kGranuleBytes);
  CHECK(std::string(memory.host(a->base, 64)) == "small");
  CHECK(std::string(memory.host(b->base, 64)) == "large");
}

TEST_CASE("a large copy to mapped memory finds all pages there") {
  if (!kHasWindows) {
    MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves too little address space)");
    return;
  }
  constexpr u64 kBytes = 4 * kGranuleBytes;
  LimitedBudget budget(0);
  Memory memory(budget);
  std::optional<u64> base = memory.reserve(kBytes, 0, 0);
  REQUIRE(base);
  auto pages = [&](u64 at, u64 bytes) {
    std::vector<unsigned char> resident(bytes / 4096);
    REQUIRE(mincore(memory.host(*base + at, bytes), bytes, resident.data()) == 0);
    return std::ranges::count_if(resident, [](unsigned char c) { return (c & 1) != 0; });
  };
  for (int round = 0; round < 2; ++round) {  // the second one with new memory
    UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
    REQUIRE(ftruncate(fd.get(), kBytes) == 0);
    REQUIRE(memory.map(*base, kBytes, fd.get(), 0, 0, 1));
    memory.populate(memory.host(*base, 1), kGranuleBytes - 1);  // not large
    CHECK(pages(0, kBytes) == 0);
    memory.populate(memory.host(*base + kGranuleBytes + 1, 1), kGranuleBytes);
    CHECK(pages(0, kGranuleBytes) == 0);
    CHECK(pages(kGranuleBytes, 2 * kGranuleBytes) == 2 * kGranuleBytes / 4096);
    CHECK(pages(3 * kGranuleBytes, kGranuleBytes) == 0);
    REQUIRE(memory.unmap(*base, kBytes));
  }
}

TEST_CASE("invalid configurations of the broker are refused") {
  CHECK(broker::parse_configuration("")->text() == "1x4096M");
  CHECK(broker::parse_configuration("4x4800M")->text() == "4x4800M");
  CHECK(broker::parse_configuration("2x8G")->bytes == 8ull << 30);
  for (const char *bad :
       {"0x4G", "4", "4x", "4x4", "4x4T", "x4G", "99x4G", "1x1M", "1x99999999999G", "2x2G "})
    CHECK_FALSE(broker::parse_configuration(bad));
}

TEST_CASE("the broker disconnects a client with invalid requests and serves the others") {
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
  Writer take_40_mib, give_1_byte, take_unknown_device;
  take_40_mib.put<u32>(0).put<u64>(40u << 20);
  give_1_byte.put<u32>(0).put<u64>(1);
  take_unknown_device.put<u32>(7).put<u64>(1);
  {
    UniqueFd first = *connect_unix(path), bad_give = *connect_unix(path),
             bad_device = *connect_unix(path);
    REQUIRE(send(first, broker::Request::Take, take_40_mib));
    CHECK(answer(first) == 1);
    REQUIRE(send(bad_give, broker::Request::Give, give_1_byte));  // memory that it does not have
    CHECK(answer(bad_give) == -1);
    REQUIRE(send(bad_device, broker::Request::Take, take_unknown_device));
    CHECK(answer(bad_device) == -1);
    UniqueFd second = *connect_unix(path);
    REQUIRE(send(second, broker::Request::Take, take_40_mib));
    CHECK(answer(second) == 0);
    first.reset();
    int got = 0;
    for (int i = 0; i < 200 && got == 0; ++i) {
      REQUIRE(send(second, broker::Request::Take, take_40_mib));
      got = answer(second);
    }
    CHECK(got == 1);
  }
  loop.join();
  unlink(path.c_str());
  rmdir(folder);
}
