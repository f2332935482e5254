// SPDX-License-Identifier: Apache-2.0
#include "agent/participant/gate.h"

#include <doctest/doctest.h>

#include <thread>

using namespace ckpt;
using namespace ckpt::agent;
using namespace std::chrono_literals;

TEST_CASE("an exempt thread passes a closed gate and is not waited for") {
  Gate gate;
  gate.close();
  std::thread callback([&] {
    gate.exempt(true);
    gate.enter();
    CHECK(gate.wait_empty(std::chrono::steady_clock::now()));
    gate.leave();
    gate.exempt(false);
  });
  callback.join();
  CHECK(gate.wait_empty(std::chrono::steady_clock::now()));
}

TEST_CASE("calls wait in front of a closed gate and continue when it opens") {
  Gate gate;
  gate.close();
  std::atomic<bool> inside{false};
  std::thread call([&] {
    gate.enter();
    inside = true;
    gate.leave();
  });
  std::this_thread::sleep_for(20ms);
  CHECK(!inside);
  CHECK(gate.wait_empty(std::chrono::steady_clock::now() + 1s));
  gate.open();
  call.join();
  CHECK(inside);
}

TEST_CASE("a gate counts calls and records the time of the last one") {
  Gate gate;
  gate.enter();
  gate.enter();  // nested: not counted
  gate.leave();
  gate.leave();
  CHECK_FALSE(gate.watched());
  CHECK(gate.entered().count == 1);
  CHECK(gate.watched());
  CHECK(gate.entered().last == 0);  // not recorded until now
  gate.enter();
  gate.pause();
  gate.leave();
  CHECK(gate.entered().count == 2);
  CHECK(gate.entered().last > 0);
  CHECK(gate.entered().copied == 0);
  gate.copied(3);
  gate.copied(4);
  CHECK(gate.entered().copied == 7);
  gate.close();
  CHECK(gate.wait_empty(std::chrono::steady_clock::now()));
  gate.open();
}
