// SPDX-License-Identifier: Apache-2.0
//
// The device clock: when engines serve jobs, and the model time of work in streams.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "softcuda/broker/engines.h"
#include "softcuda/device/stream.h"

using namespace ckpt;
using namespace ckpt::softcuda;
using broker::Engines;

namespace {

constexpr i64 kMillisecond = 1'000'000;

void sleep_until(i64 time) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(time - device_now()));
}

// For work that must not end, in the model, before the test has submitted all that follows it:
// waits for that, however long the machine delays it, and continues from then on.
void wait_for(const std::atomic<bool> &submitted) {
  while (!submitted) std::this_thread::sleep_for(std::chrono::microseconds(100));
  model_time() = device_now();
}

}  // namespace

TEST_CASE("an engine serves jobs one after the other, and none before it is ready") {
  Engines e;
  CHECK(e.serve(1, {.since = 100, .kernel = 10}) == 110);
  // Ready long before the call: the job starts when the engine became free.
  CHECK(e.serve(1, {.since = 50, .kernel = 10}) == 120);
  CHECK(e.serve(2, {.since = 60, .kernel = 10}) == 130);
  CHECK(e.serve(2, {.since = 200, .kernel = 10}) == 210);
  // The bus is a separate engine.
  CHECK(e.serve(1, {.since = 100, .bus = 20}) == 120);
  CHECK(e.serve(2, {.since = 100, .bus = 20}) == 140);
}

TEST_CASE("a switch between processes takes time") {
  Engines e;
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 10);
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 20);
  CHECK(e.serve(2, {.since = 0, .kernel = 10, .switch_cost = 3}) == 33);
  CHECK(e.serve(1, {.since = 0, .kernel = 10, .switch_cost = 3}) == 46);
  CHECK(e.serve(1, {.since = 0, .bus = 10, .bus_switch_cost = 4}) == 10);
  CHECK(e.serve(2, {.since = 0, .bus = 10, .bus_switch_cost = 4}) == 24);
}

TEST_CASE("a kernel on pinned memory and copies share the bus") {
  Engines e;
  // The kernel uses the bus for half of its time, and a copy waits for that.
  CHECK(e.serve(1, {.since = 0, .kernel = 100, .bus = 50}) == 100);
  CHECK(e.serve(2, {.since = 10, .bus = 30}) == 80);
  // The next kernel waits for the bus, and keeps the kernel engine meanwhile.
  CHECK(e.serve(2, {.since = 80, .bus = 100}) == 180);
  CHECK(e.serve(1, {.since = 100, .kernel = 100, .bus = 50}) == 230);
  CHECK(e.serve(2, {.since = 0, .kernel = 10}) == 240);
}

TEST_CASE("for how long the kernels of each process have run is known") {
  Engines e;
  e.serve(1, {.since = 100, .kernel = 50});
  e.serve(2, {.since = 100, .kernel = 30});
  e.serve(1, {.since = 100, .kernel = 50});
  using Times = std::map<i32, i64>;
  CHECK(e.kernel_times(90) == Times{});
  CHECK(e.kernel_times(120) == Times{{1, 20}});
  CHECK(e.kernel_times(160) == Times{{1, 50}, {2, 10}});
  CHECK(e.kernel_times(1000) == Times{{1, 100}, {2, 30}});
  e.serve(1, {.since = 2000, .kernel = 10, .bus = 90});  // keeps the engine, and is no kernel then
  CHECK(e.kernel_times(3000) == Times{{1, 110}, {2, 30}});
  e.forget(1);
  CHECK(e.kernel_times(3000) == Times{{2, 30}});
}

TEST_CASE("the times of kernels take bounded room") {
  Engines e;
  for (int i = 0; i < 100'000; i++) e.serve(1, {.since = 0, .kernel = 1});
  CHECK(e.kernel_times(1'000'000) == std::map<i32, i64>{{1, 100'000}});
}

TEST_CASE("for how long the engines were busy is known, without what is still to come") {
  Engines e;
  e.serve(1, {.since = 100, .kernel = 50});
  e.serve(1, {.since = 100, .kernel = 50});
  e.serve(1, {.since = 300, .bus = 20});
  CHECK(e.kernel_time(120) == 20);
  CHECK(e.kernel_time(1000) == 100);
  CHECK(e.bus_time(310) == 10);
  CHECK(e.bus_time(1000) == 20);
  CHECK(e.runs_kernel(199));
  CHECK(!e.runs_kernel(200));
  CHECK(e.uses_bus(319));
  CHECK(!e.uses_bus(320));
}

TEST_CASE("work starts when the work before it in its stream has ended in the model") {
  auto queue = std::make_shared<WorkQueue>();
  std::atomic<bool> submitted{false};
  i64 begin = device_now(), first = 0;
  std::vector<i64> begins;
  queue->submit([&] {
    wait_for(submitted);
    first = model_time();
  });
  Point last;
  for (int i = 0; i < 5; ++i)
    last = queue->submit([&] {
      begins.push_back(model_time());
      model_time() += 5 * kMillisecond;
      sleep_until(model_time() + 2 * kMillisecond);  // wakes up late
    });
  submitted = true;
  last.wait();
  CHECK(first >= begin);
  CHECK(begins[0] == first);
  for (size_t i = 1; i < begins.size(); ++i) CHECK(begins[i] == begins[i - 1] + 5 * kMillisecond);
  // Work does not start before it is submitted.
  begin = device_now();
  queue->submit([&] { begins.push_back(model_time()); }).wait();
  CHECK(begins.back() >= begin);
  queue->close();
}

TEST_CASE("work that waits for another stream starts when that work has ended in the model") {
  auto first = std::make_shared<WorkQueue>(), second = std::make_shared<WorkQueue>();
  std::atomic<bool> submitted{false};
  i64 over = 0, begun = 0;
  Point p = first->submit([&] {
    wait_for(submitted);
    model_time() += 5 * kMillisecond;
    over = model_time();
    sleep_until(over + kMillisecond);
  });
  // Later work of that stream does not delay it.
  first->submit([&] { model_time() += kMillisecond; });
  Point done = second->submit([&] { begun = model_time(); }, {p});
  submitted = true;
  done.wait();
  CHECK(begun == over);
  // Model time is never ahead of the clock, as it could be after a restore on another machine.
  p = first->submit([] { model_time() += 3600'000 * kMillisecond; });
  p.wait();
  first->submit([&] { begun = model_time(); }).wait();
  CHECK(begun <= device_now());
  first->close();
  second->close();
}
