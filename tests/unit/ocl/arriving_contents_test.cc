// SPDX-License-Identifier: Apache-2.0
//
// Which commands wait for contents that arrive, without a driver: the buffers have pages.
#include "libckpt-ocl/proxy/serve/arriving_contents.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "agent/protocol.h"
#include "common/base/fields.h"

using namespace ckpt;
using ocl::ArrivingContents;
using protocol::Type;

namespace {

constexpr u32 kSlots = 2, kSlotBytes = 16;

// Two buffers, numbers 7 and 9; the second one has a sub-buffer, number 10. The test is the tool.
struct Arriving {
  std::vector<std::byte> first = std::vector<std::byte>(2 * kSlotBytes);
  std::vector<std::byte> second = std::vector<std::byte>(kSlotBytes);
  std::atomic<int> lost = 0;
  UniqueFd tool;
  Mapping slots;
  std::optional<ArrivingContents> contents;

  Arriving() {
    contents.emplace([this] { lost++; });
    CHECK(contents->add({7, {}, nullptr, nullptr, first.data(), first.size()}) == CL_SUCCESS);
    CHECK(contents->add({9, {10}, nullptr, nullptr, second.data(), second.size()}) == CL_SUCCESS);
    auto ends = socket_pair();
    REQUIRE(ends);
    CHECK(contents->begin(ends->second.get()) == CL_SUCCESS);
    tool = std::move(ends->first);
    auto memory = make_memfd("test", u64{kSlots} * kSlotBytes);
    REQUIRE(memory);
    auto mapped = Mapping::map(memory->get(), u64{kSlots} * kSlotBytes);
    REQUIRE(mapped);
    slots = std::move(*mapped);
    int fd = memory->get();
    REQUIRE(send_message(tool.get(), static_cast<u16>(Type::Load),
                         Writer().put(kSlots).put(kSlotBytes).bytes(), std::span(&fd, 1)));
  }
  void send(u32 slot, u32 buffer, u64 offset, u32 bytes = kSlotBytes) const {
    REQUIRE(send_message(tool.get(), static_cast<u16>(Type::SlotFull),
                         Writer().put(slot).put(buffer).put(offset).put(bytes).bytes()));
  }
  void send_value(u32 buffer, u64 offset, int value) {
    std::fill_n(slots.data(), kSlotBytes, static_cast<std::byte>(value));
    send(0, buffer, offset);
  }
  // The next message, which has one number; no value: the other side has hung up.
  std::optional<std::pair<Type, u32>> next() const {
    auto m = receive_message(tool.get());
    if (!m || !*m) return std::nullopt;
    return std::pair(static_cast<Type>((*m)->type), (*m)->reader().get<u32>());
  }
  // Until the loading thread has ended: it misses nothing then.
  void wait_for_end() {
    while (contents->misses(7) || contents->misses(9)) std::this_thread::yield();
  }
};

using Said = std::optional<std::pair<Type, u32>>;
Said said(Type type, u32 number) { return std::pair(type, number); }

bool is_full_of(const std::vector<std::byte> &bytes, size_t from, int value) {
  return std::all_of(bytes.begin() + static_cast<long>(from),
                     bytes.begin() + static_cast<long>(from) + kSlotBytes,
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

}  // namespace

TEST_CASE("a command waits until its buffer has all its contents") {
  Arriving a;
  std::atomic<bool> goes_on = false;
  std::thread command([&] {
    a.contents->need(7);
    goes_on = true;
  });
  CHECK(a.next() == said(Type::ArrivalWanted, 0));
  a.send_value(0, kSlotBytes, 2);
  CHECK(a.next() == said(Type::SlotFree, 0));
  CHECK(a.contents->misses(7));  // half is there
  CHECK(!goes_on);
  a.send_value(0, 0, 1);
  command.join();
  CHECK(is_full_of(a.first, 0, 1));
  CHECK(is_full_of(a.first, kSlotBytes, 2));
}

TEST_CASE("a command waits for no other buffer") {
  Arriving a;
  a.contents->need(8);  // none that arrives
  a.send_value(1, 0, 3);
  CHECK(a.next() == said(Type::SlotFree, 0));
  a.contents->need(9);
  CHECK(a.contents->misses(7));
  CHECK(is_full_of(a.second, 0, 3));
}

TEST_CASE("a command with a sub-buffer waits for the whole buffer") {
  Arriving a;
  CHECK(a.contents->misses(10));
  std::thread command([&] { a.contents->need(10); });
  CHECK(a.next() == said(Type::ArrivalWanted, 1));
  a.send_value(1, 0, 3);
  command.join();
  CHECK(!a.contents->misses(10));
}

TEST_CASE("a buffer that is released drops what has not come") {
  Arriving a;
  a.contents->forget(10);  // a sub-buffer drops nothing
  CHECK(a.contents->misses(9));
  a.contents->forget(7);
  CHECK(a.next() == said(Type::ArrivalDropped, 0));
  a.send_value(0, 0, 1);  // it was on its way
  CHECK(a.next() == said(Type::SlotFree, 0));
  CHECK(is_full_of(a.first, 0, 0));
  a.send_value(1, 0, 3);
  CHECK(a.next() == said(Type::SlotFree, 0));
  a.tool.reset();
  a.wait_for_end();
  a.contents.reset();
  CHECK(a.lost == 0);
}

TEST_CASE("no command goes on before it is known that its contents are lost") {
  Arriving a;
  a.send_value(0, 0, 1);
  CHECK(a.next() == said(Type::SlotFree, 0));
  int lost_before = -1;
  std::thread command([&] {
    a.contents->need(9);
    lost_before = a.lost;
  });
  CHECK(a.next() == said(Type::ArrivalWanted, 1));
  a.tool.reset();
  command.join();
  CHECK(lost_before == 1);
}

TEST_CASE("a tool may end when everything is there") {
  Arriving a;
  a.send_value(0, 0, 1);
  a.send_value(0, kSlotBytes, 1);
  a.send_value(1, 0, 1);
  a.tool.reset();
  a.wait_for_end();
  a.contents.reset();
  CHECK(a.lost == 0);
}

TEST_CASE("pieces that fit no buffer and no slot are refused") {
  for (int i = 0; i < 6; i++) {
    Arriving a;
    if (i == 0) a.send(kSlots, 0, 0);
    if (i == 1) a.send(0, 2, 0);
    if (i == 2) a.send(0, 1, 1);
    if (i == 3) a.send(0, 1, ~u64{0});
    if (i == 4) a.send(0, 0, 0, kSlotBytes + 1);
    if (i == 5) a.send(0, 0, 0, 0);
    a.contents->need(9);
    CHECK(a.lost == 1);
    CHECK(is_full_of(a.second, 0, 0));
  }
}

TEST_CASE("a buffer that cannot arrive keeps all from arriving in this way") {
  ArrivingContents contents([] {});
  std::byte page[16];
  CHECK(contents.add({7, {}, nullptr, nullptr, page, sizeof page}) == CL_SUCCESS);
  CHECK(contents.add({}) == CL_INVALID_VALUE);
  auto ends = socket_pair();
  REQUIRE(ends);
  CHECK(contents.begin(ends->second.get()) == CL_INVALID_VALUE);
  CHECK(!contents.misses(7));
  CHECK(contents.add({7, {}, nullptr, nullptr, page, sizeof page}) == CL_SUCCESS);
  CHECK(contents.begin(-1) == CL_INVALID_VALUE);
}
