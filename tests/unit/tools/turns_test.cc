// SPDX-License-Identifier: Apache-2.0
#include "tools/session/turns.h"

#include <doctest/doctest.h>

using namespace ckpt::tools;
using namespace std::chrono_literals;

namespace {

constexpr uid_t kAda = 1, kBob = 2;
constexpr Turns::Limits kLimits{.slots = 2, .long_work = 20s, .user_time = 600s};
const Turns::Time kStart{1000s};

using Programs = std::vector<size_t>;

Programs all_next(Turns &t, Turns::Time now) {
  Programs all;
  while (auto program = t.next(now)) all.push_back(*program);
  return all;
}

}  // namespace

TEST_CASE("users take turns, in the order of their programs") {
  Turns t({kAda, kAda, kAda, kBob}, kLimits);
  CHECK(all_next(t, kStart) == Programs{0, 3});
  t.ended(0);
  CHECK(all_next(t, kStart) == Programs{1});
  t.ended(3);
  CHECK(all_next(t, kStart) == Programs{2});
  t.ended(1);
  t.ended(2);
  CHECK(t.all_ended());
  CHECK_FALSE(t.wake(kStart));
}

TEST_CASE("a user alone has all slots") {
  Turns t({kAda, kAda, kAda}, kLimits);
  CHECK(all_next(t, kStart) == Programs{0, 1});
  CHECK(all_next(t, kStart + 100s).empty());
}

TEST_CASE("long dumps of one user keep no slot from another one") {
  Turns t({kAda, kAda, kAda, kBob, kBob}, {.slots = 1, .long_work = 20s, .user_time = 600s});
  CHECK(all_next(t, kStart) == Programs{0});
  CHECK(all_next(t, kStart + 19s).empty());
  CHECK(t.wake(kStart + 19s) == kStart + 20s);
  CHECK(all_next(t, kStart + 20s) == Programs{3});
  t.ended(3);
  CHECK(all_next(t, kStart + 21s) == Programs{4});
  t.ended(4);
  CHECK(all_next(t, kStart + 22s).empty());  // Ada's own next one waits for her first
}

TEST_CASE("what is not dumped when its user's time is over is given up, once") {
  Turns t({kAda, kAda, kAda, kBob}, kLimits);
  all_next(t, kStart);
  t.ended(3);
  all_next(t, kStart + 1s);
  CHECK(t.give_up(kStart + 599s).empty());
  CHECK(t.wake(kStart + 599s) == kStart + 600s);
  auto gone = t.give_up(kStart + 600s);
  REQUIRE(gone.size() == 3);
  CHECK(gone[0].program == 0);
  CHECK(gone[0].under_way);
  CHECK(gone[1].under_way);
  CHECK(gone[2].program == 2);
  CHECK_FALSE(gone[2].under_way);
  CHECK(t.give_up(kStart + 601s).empty());
  CHECK_FALSE(t.all_ended());
  t.ended(0);
  t.ended(1);
  CHECK(t.all_ended());
}
