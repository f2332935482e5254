// SPDX-License-Identifier: Apache-2.0
//
// The model of a device's time: when engines serve what, and which moments work has.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "softcuda/broker/engines.h"
#include "softcuda/device/stream.h"

using namespace ckpt;
using namespace ckpt::softcuda;
using broker::Engines;

namespace {

constexpr i64 kMillisecond = 1'000'000;

void sleep_until(i64 moment) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(moment - device_now()));
}

}  // namespace

TEST_CASE("an engine serves one after the other, and not before it was asked") {
  Engines e;
  CHECK(e.serve(1, {.since = 100, .kernel = 10}) == 110);
  // Ready long before: it begins when the engine became free, not when somebody asked.
  CHECK(e.serve(1, {.since = 50, .kernel = 10}) == 120);
  CHECK(e.serve(2, {.since = 60, .kernel = 10}) == 130);
  CHECK(e.serve(2, {.since = 200, .kernel = 10}) == 210);
  // The bus is another engine.
  CHECK(e.serve(1, {.since = 100, .bus = 20}) == 120);
  CHECK(e.serve(2, {.since = 100, .bus = 20}) == 140);
}

TEST_CASE("another process's turn costs a change") {
  Engines e;
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 10);
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 20);
  CHECK(e.serve(2, {.since = 0, .kernel = 10, .switch_cost = 3}) == 33);
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 46);
  CHECK(e.serve(1, {.since = 0, .bus = 10, .bus_switch_cost = 4}) == 10);
  CHECK(e.serve(2, {.since = 0, .bus = 10, .bus_switch_cost = 4}) == 24);
}

TEST_CASE("a kernel on the host's memory and copies share the bus") {
  Engines e;
  // It has the bus for a half of its time; a copy waits for that.
  CHECK(e.serve(1, {.since = 0, .kernel = 100, .bus = 50}) == 100);
  CHECK(e.serve(2, {.since = 10, .bus = 30}) == 80);
  // The next one has to wait for the bus, and keeps its engine meanwhile.
  CHECK(e.serve(2, {.since = 80, .bus = 100}) == 180);
  CHECK(e.serve(1, {.since = 100, .kernel = 100, .bus = 50}) == 230);
  CHECK(e.serve(2, {.since = 0, .kernel = 10}) == 240);
}

TEST_CASE("a stream's work begins when the work before it was over in the model") {
  auto queue = std::make_shared<WorkQueue>();
  i64 begin = device_now();
  std::vector<i64> begins;
  Point last;
  for (int i = 0; i < 5; ++i)
    last = queue->submit([&] {
      begins.push_back(model_time());
      model_time() += 5 * kMillisecond;
      sleep_until(model_time() + 2 * kMillisecond);  // it wakes up late
    });
  last.wait();
  CHECK(begins[0] >= begin);
  for (size_t i = 1; i < begins.size(); ++i) CHECK(begins[i] == begins[i - 1] + 5 * kMillisecond);
  // What comes later is not ready earlier.
  begin = device_now();
  queue->submit([&] { begins.push_back(model_time()); }).wait();
  CHECK(begins.back() >= begin);
  queue->close();
}

TEST_CASE("work that waits for another stream begins at the moment of what it waits for") {
  auto first = std::make_shared<WorkQueue>(), second = std::make_shared<WorkQueue>();
  i64 over = 0, begun = 0;
  Point p = first->submit([&] {
    over = model_time() += 5 * kMillisecond;
    sleep_until(over + kMillisecond);
  });
  // A later moment of the same stream is not what is waited for.
  first->submit([&] { model_time() += kMillisecond; });
  second->submit([&] { begun = model_time(); }, {p}).wait();
  CHECK(begun == over);
  // Moments do not run ahead of what has happened, as of a clock that was another machine's.
  p = first->submit([] { model_time() += 3600'000 * kMillisecond; });
  p.wait();
  first->submit([&] { begun = model_time(); }).wait();
  CHECK(begun <= device_now());
  first->close();
  second->close();
}
