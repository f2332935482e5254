// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "agent/participant/gate.h"
#include "libckpt-ocl/client/link/staging.h"

using namespace ckpt;
using namespace ckpt::ocl;
using namespace std::chrono_literals;

TEST_CASE("staging space: allocations never overlap, and released memory is free again") {
  StagingSpace space(1 << 20);
  std::mt19937 random(7);
  std::map<u64, u64> allocated;
  for (int i = 0; i < 20000; i++) {
    if (random() % 2 == 0 || allocated.empty()) {
      u64 bytes = 1 + random() % 9000;
      std::optional<u64> at = space.allocate(bytes);
      if (!at) continue;
      auto next = allocated.lower_bound(*at);
      if (next != allocated.end()) REQUIRE(*at + bytes <= next->first);
      if (next != allocated.begin())
        REQUIRE(std::prev(next)->first + std::prev(next)->second <= *at);
      REQUIRE(*at + bytes <= 1 << 20);
      allocated[*at] = bytes;
    } else {
      auto it = std::next(allocated.begin(), static_cast<long>(random() % allocated.size()));
      space.release(it->first, it->second);
      allocated.erase(it);
    }
  }
  for (auto &[at, bytes] : allocated) space.release(at, bytes);
  CHECK(space.empty());
  CHECK(space.allocate(1 << 20));
  CHECK_FALSE(space.allocate(1));
}

TEST_CASE("a closed gate makes new calls wait and lets calls inside finish") {
  agent::Gate gate;
  std::atomic<int> inside{0}, stop{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      while (!stop) {
        gate.enter();
        inside++;
        std::this_thread::yield();
        inside--;
        gate.leave();
      }
    });
  for (int round = 0; round < 50; round++) {
    gate.close();
    REQUIRE(gate.wait_empty(std::chrono::steady_clock::now() + 20s));
    for (int i = 0; i < 100; i++) REQUIRE(inside == 0);
    gate.open();
    std::this_thread::yield();
  }
  stop = 1;
  for (std::thread &t : threads) t.join();
}

TEST_CASE("a waiting thread leaves a closing gate") {
  agent::Gate gate;
  std::atomic<bool> entered{false}, done{false};
  std::thread waiter([&] {
    gate.enter();
    entered = true;
    while (!done) {
      if (gate.closing()) gate.pause();
      std::this_thread::yield();
    }
    gate.leave();
  });
  while (!entered) std::this_thread::yield();
  gate.close();
  CHECK(gate.wait_empty(std::chrono::steady_clock::now() + 20s));
  gate.open();
  done = true;
  waiter.join();
}

TEST_CASE("wait_empty() fails at the deadline, and nested calls pass a closed gate") {
  agent::Gate gate;
  gate.enter();
  gate.close();
  CHECK_FALSE(gate.wait_empty(std::chrono::steady_clock::now() + 10ms));
  gate.enter();  // a call that a callback makes
  gate.leave();
  gate.open();
  gate.leave();
}
