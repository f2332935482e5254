// SPDX-License-Identifier: Apache-2.0
#include "tools/image/retention.h"

#include <stdlib.h>

#include <doctest/doctest.h>

using namespace ckpt::tools;
using namespace std::chrono_literals;

namespace {

constexpr time_t kHour = 3600, kDay = 24 * kHour;
// Wednesday, 16 April 2025, 12:00 UTC.
constexpr time_t kNoon = 1744804800;

// The rules that keep each image, as text: "last daily", "".
std::vector<std::string> kept(const std::vector<time_t> &times, const Retention &rules) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  std::vector<std::string> all;
  for (const std::vector<std::string> &names : rules_that_keep(times, rules)) {
    std::string text;
    for (const std::string &name : names) text += (text.empty() ? "" : " ") + name;
    all.push_back(text);
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the newest images are kept, whatever their age") {
  CHECK(kept({kNoon, kNoon, kNoon - 5}, {.last = 2}) == Texts{"last", "last", ""});
  CHECK(kept({kNoon}, {.last = 9}) == Texts{"last"});
  CHECK(kept({}, {.last = 9}).empty());
}

TEST_CASE("of each day the newest image is kept") {
  // Today at 12 and 1 o'clock, yesterday at 23 and 12, three days ago.
  std::vector<time_t> times{kNoon, kNoon - 11 * kHour, kNoon - 13 * kHour, kNoon - kDay,
                            kNoon - 3 * kDay};
  CHECK(kept(times, {.daily = 1}) == Texts{"daily", "", "", "", ""});
  CHECK(kept(times, {.daily = 2}) == Texts{"daily", "", "daily", "", ""});
  CHECK(kept(times, {.daily = 3}) == Texts{"daily", "", "daily", "", "daily"});
}

TEST_CASE("a rule with counts left keeps the oldest image, too") {
  std::vector<time_t> times{kNoon, kNoon - 60, kNoon - 120};
  CHECK(kept(times, {.daily = 2}) == Texts{"daily", "", "daily"});
  CHECK(kept(times, {.daily = 1}) == Texts{"daily", "", ""});
}

TEST_CASE("hours, weeks and months begin where those of the calendar do") {
  CHECK(kept({kNoon + 60, kNoon - 60, kNoon - 120, kNoon - 9 * kHour}, {.hourly = 2}) ==
        Texts{"hourly", "hourly", "", ""});
  // Wednesday, Monday, the Sunday before, and the Sunday before that.
  CHECK(kept({kNoon, kNoon - 2 * kDay, kNoon - 3 * kDay, kNoon - 10 * kDay}, {.weekly = 2}) ==
        Texts{"weekly", "", "weekly", ""});
  // 16 and 1 April, 31 and 1 March.
  CHECK(kept({kNoon, kNoon - 15 * kDay, kNoon - 16 * kDay, kNoon - 46 * kDay}, {.monthly = 2}) ==
        Texts{"monthly", "", "monthly", ""});
}

TEST_CASE("a duration counts from the newest image") {
  std::vector<time_t> times{kNoon, kNoon - kDay, kNoon - kDay - 1};
  CHECK(kept(times, {.within = 24h}) == Texts{"within", "within", ""});
  CHECK(kept(times, {.last = 1, .within = 1s}) == Texts{"last within", "", ""});
}

TEST_CASE("no rule") {
  CHECK_FALSE(Retention{}.has_rules());
  CHECK(Retention{.within = 1s}.has_rules());
  CHECK(kept({kNoon}, {}) == Texts{""});
}
