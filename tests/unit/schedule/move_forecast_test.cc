// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/move_forecast.h"

#include <vector>

#include <doctest/doctest.h>

using namespace ckpt::schedule;

namespace {

using Sense = Estimate::Sense;

constexpr double kMiB = 1 << 20;

Way a_link(std::optional<double> answer, std::optional<double> rate) {
  return {false, answer, rate};
}

bool is(const Estimate &e, Sense sense, double value) {
  return e.sense == sense && e.value == doctest::Approx(value);
}

}  // namespace

TEST_CASE("what is known from one side stays so in sums and quotients") {
  Estimate two = Estimate::about(2), least = Estimate::at_least(3), most = Estimate::at_most(4);
  CHECK(is(two + least, Sense::AtLeast, 5));
  CHECK(is(two - least, Sense::AtMost, -1));
  CHECK(is(least - most, Sense::AtLeast, -1));
  CHECK(is(least / two, Sense::AtLeast, 1.5));
  CHECK(is(two / least, Sense::AtMost, 2.0 / 3));
  CHECK(is(least / most, Sense::AtLeast, 0.75));
  CHECK(!(least + most).known());
  CHECK(!(least / least).known());
  CHECK(!(two + Estimate{}).known());
  CHECK(is(sum_of_parts(two, {}), Sense::AtLeast, 2));
  CHECK(is(sum_of_parts({}, least), Sense::AtLeast, 3));
  CHECK(!sum_of_parts(most, {}).known());
  CHECK(!sum_of_parts({}, {}).known());
}

TEST_CASE("a program loses an answer for each wait, and the time of its bytes") {
  Work work{25, 3e6};
  CHECK(is(lost_share(work, a_link(2e-3, 1e8)), Sense::About, 0.05 + 0.03));
  CHECK(is(lost_share(work, {}), Sense::About, 0));
  CHECK(is(lost_share(work, a_link(2e-3, {})), Sense::AtLeast, 0.05));
  CHECK(is(lost_share(work, a_link({}, 1e8)), Sense::AtLeast, 0.03));
  CHECK(!lost_share(work, a_link({}, {})).known());
  CHECK(!lost_share({}, a_link(2e-3, 1e8)).known());
  CHECK(is(lost_share({0, 0}, a_link({}, {})), Sense::About, 0));
}

TEST_CASE("a move pays once the time that it stands still for is gained") {
  Estimate here = Estimate::about(0);
  Forecast f = forecast_move(Estimate::about(0.9), Estimate::about(0.05), here);
  CHECK(is(f.gain, Sense::About, 0.05));
  CHECK(is(f.then, Sense::About, 0.95));
  CHECK(f.pays == Forecast::Pays::After);
  CHECK(is(f.after, Sense::About, 18));

  f = forecast_move(Estimate::about(0.9), Estimate::at_least(0.05), here);
  CHECK(is(f.after, Sense::AtMost, 18));
  CHECK(is(f.then, Sense::AtMost, 0.95));
  f = forecast_move(Estimate::at_least(0.9), Estimate::about(0.05), here);
  CHECK(is(f.after, Sense::AtLeast, 18));
  f = forecast_move(Estimate::at_least(0.9), Estimate::at_least(0.05), here);
  CHECK(f.pays == Forecast::Pays::Unknown);
  CHECK(!f.after.known());
  CHECK(forecast_move({}, Estimate::about(0.05), here).pays == Forecast::Pays::Unknown);
}

TEST_CASE("a move to a slower way never pays") {
  Estimate here = Estimate::about(0), there = Estimate::about(0.2);
  Forecast f = forecast_move(Estimate::about(1), here, there);
  CHECK(f.pays == Forecast::Pays::Never);
  CHECK(is(f.then, Sense::About, 1.2));
  CHECK(forecast_move(Estimate::about(1), here, here).pays == Forecast::Pays::Never);
  CHECK(forecast_move(Estimate::about(1), here, Estimate::at_least(0.2)).pays ==
        Forecast::Pays::Never);
  // The way that it has may lose more than is known.
  CHECK(forecast_move(Estimate::about(1), Estimate::at_least(0.1), there).pays ==
        Forecast::Pays::Unknown);
}

TEST_CASE("waits that overlap do not gain more than there is") {
  Forecast f = forecast_move(Estimate::about(1), Estimate::about(3), Estimate::about(0));
  CHECK(f.then.value > 0);
  CHECK(f.after.value >= 1);
}

TEST_CASE("the time of earlier moves says what the next one takes") {
  std::vector<MovedBytes> line;
  for (double mib : {1, 16, 64, 256}) line.push_back({mib * kMiB, 0.1 + mib / 100});
  CHECK(is(part_of_move(line, 128 * kMiB, {}), Sense::About, 0.1 + 1.28));
  CHECK(is(part_of_move(line, 1024 * kMiB, {}), Sense::About, 0.1 + 10.24));

  std::vector<MovedBytes> one = {{64 * kMiB, 0.8}, {66 * kMiB, 0.6}, {64 * kMiB, 5}};
  CHECK(is(part_of_move(one, 50 * kMiB, {}), Sense::About, 0.8));
  CHECK(is(part_of_move(one, kMiB, {}), Sense::AtMost, 0.8));
  CHECK(is(part_of_move(one, 640 * kMiB, {}), Sense::AtMost, 8));
  std::vector<MovedBytes> empty = {{0, 0.1}};
  CHECK(is(part_of_move(empty, 0, {}), Sense::About, 0.1));
  CHECK(is(part_of_move(empty, kMiB, {}), Sense::AtLeast, 0.1));
}

TEST_CASE("without earlier moves only the time of the bytes is known") {
  CHECK(is(part_of_move({}, 1e9, a_link(1e-3, 1e8)), Sense::AtLeast, 10));
  CHECK(!part_of_move({}, 1e9, a_link(1e-3, {})).known());
  CHECK(!part_of_move({}, 1e9, {}).known());
}
