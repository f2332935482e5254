// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/event_board.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace ckpt;
using Recording = EventBoard::Recording;

namespace {

constexpr u64 kA = 1, kB = 2, kName = 77, kOtherName = 78;

UniqueFd memory() {
  Result<UniqueFd> fd = EventBoard::make();
  REQUIRE(fd.has_value());
  return std::move(*fd);
}
EventBoard view(const UniqueFd &fd) {
  Result<EventBoard> board = EventBoard::map(fd.get());
  REQUIRE(board.has_value());
  return std::move(*board);
}

// What a device does when its stream has come to the recording.
void write_as_device(EventBoard &board, Recording r) {
  *reinterpret_cast<std::atomic<u64> *>(board.data() + EventBoard::offset_of(r)) =
      EventBoard::value_of(r);
}

}  // namespace

TEST_CASE("a recording is complete when its device has written the value of its counter") {
  UniqueFd fd = memory();
  EventBoard a = view(fd), b = view(fd);
  CHECK(b.is_complete(0));
  u32 counter = a.take_counter(kA).value();
  CHECK(a.is_free(counter));
  Recording first = a.begin(counter);
  CHECK_FALSE(b.is_complete(first));
  CHECK_FALSE(a.is_free(counter));
  write_as_device(a, first);
  CHECK(b.is_complete(first));
  CHECK(a.is_free(counter));
  Recording second = a.begin(counter);
  CHECK(second != first);
  CHECK(b.is_complete(first));
  CHECK_FALSE(b.is_complete(second));
  a.complete(second);
  a.complete(first);
  CHECK(b.is_complete(second));
}

TEST_CASE("a counter belongs to one process, until it gives it back or ends") {
  UniqueFd fd = memory();
  EventBoard a = view(fd), b = view(fd);
  u32 mine = a.take_counter(kA).value(), others = b.take_counter(kB).value();
  std::set<u32> taken{mine, others};
  for (u32 i = 2; i < EventBoard::kCounters; i++)
    CHECK(taken.insert((i % 2 == 0 ? a.take_counter(kA) : b.take_counter(kB)).value()).second);
  CHECK_FALSE(a.take_counter(kA).has_value());
  Recording of_a = a.begin(mine), of_b = b.begin(others);
  a.give_back_counters(kA);
  CHECK(b.is_complete(of_a));
  CHECK_FALSE(a.is_complete(of_b));
  CHECK(b.take_counter(kB).has_value());
  b.end_of(kB);
  CHECK(a.is_complete(of_b));
  CHECK(a.take_counter(kA).has_value());
}

TEST_CASE(
    "a value never falls, so a wait for an old recording ends at a later one of another process") {
  UniqueFd fd = memory();
  EventBoard board = view(fd);
  u32 counter = board.take_counter(kA).value();
  Recording old = board.begin(counter);
  board.end_of(kA);
  CHECK(board.is_complete(old));
  std::optional<u32> again;
  do again = board.take_counter(kB);
  while (again.value() != counter);
  Recording later = board.begin(counter);
  CHECK(EventBoard::value_of(later) > EventBoard::value_of(old));
  CHECK_FALSE(board.is_complete(later));
  CHECK(board.is_complete(old));
}

TEST_CASE("an event has the last recording of any process, and is found by its name alone") {
  UniqueFd fd = memory();
  EventBoard a = view(fd), b = view(fd);
  Recording before = a.begin(a.take_counter(kA).value());
  u32 slot = a.add_event(kA, kName, before).value();
  CHECK(b.owner_of(slot, kName) == kA);
  CHECK(b.owner_of(slot, kOtherName) == 0);
  CHECK(b.last(slot, kName) == before);
  Recording of_b = b.begin(b.take_counter(kB).value());
  b.set_last(slot, kName, of_b);
  CHECK(a.last(slot, kName) == of_b);
  b.set_last(slot, kOtherName, 5);
  CHECK(a.last(slot, kName) == of_b);
  a.remove_event(slot, kOtherName);
  CHECK(b.owner_of(slot, kName) == kA);
  a.remove_event(slot, kName);
  CHECK(b.owner_of(slot, kName) == 0);
  CHECK(b.last(slot, kName) == 0);
}

TEST_CASE("a slot serves one event after another, and the board has a bound") {
  UniqueFd fd = memory();
  EventBoard board = view(fd);
  for (u32 i = 0; i < EventBoard::kSlots; i++) CHECK(board.add_event(kA, i + 1, 0).has_value());
  CHECK_FALSE(board.add_event(kB, kName, 0).has_value());
  board.end_of(kB);
  CHECK_FALSE(board.add_event(kB, kName, 0).has_value());
  board.end_of(kA);
  CHECK(board.add_event(kB, kName, 0).has_value());
}

TEST_CASE("a restored process gets its slot again, and another one does not") {
  UniqueFd old_memory = memory(), new_memory = memory();
  EventBoard old_board = view(old_memory), board = view(new_memory);
  u32 slot = old_board.add_event(kA, kName, 0).value();
  CHECK(old_board.add_event_again(slot, kA, kName));  // a dump that was undone
  CHECK(board.add_event_again(slot, kA, kName));
  CHECK(board.owner_of(slot, kName) == kA);
  CHECK_FALSE(board.add_event_again(slot, kB, kOtherName));
  CHECK(board.owner_of(slot, kName) == kA);
}

TEST_CASE("memory that is too small is no board") {
  Result<UniqueFd> small = make_memfd("small", 4096);
  REQUIRE(small.has_value());
  CHECK_FALSE(EventBoard::map(small->get()).has_value());
}

// Devices write in any order. A waiter's view agrees with a model.
TEST_CASE("random histories of recordings agree with a model") {
  std::mt19937 random(1);
  UniqueFd fd = memory();
  EventBoard views[] = {view(fd), view(fd), view(fd)};
  struct Made {
    Recording r;
    bool done;
  };
  std::vector<u32> counters[3];
  std::vector<Made> made;
  for (int step = 0; step < 20000; step++) {
    u64 who = random() % 3;
    if (random() % 2 == 0) {
      auto free = std::ranges::find_if(counters[who], [&](u32 c) { return views[who].is_free(c); });
      u32 counter = free != counters[who].end() ? *free : views[who].take_counter(who + 1).value();
      if (free == counters[who].end()) counters[who].push_back(counter);
      made.push_back({views[who].begin(counter), false});
    } else if (!made.empty()) {
      Made &m = made[made.size() - 1 - random() % std::min<size_t>(made.size(), 100)];
      if (!m.done) write_as_device(views[who], m.r);
      m.done = true;
    }
    if (!made.empty()) {
      const Made &m = made[random() % made.size()];
      CHECK(views[random() % 3].is_complete(m.r) == m.done);
    }
  }
}
