// SPDX-License-Identifier: Apache-2.0
#include "manager-client/heartbeat.h"

#include <doctest/doctest.h>

#include "common/base/clock.h"

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace std::chrono_literals;
using Action = Heartbeat::Action;

namespace {

constexpr auto kPatience = 8s;
constexpr auto kBeat = 1s;

struct Waiting {
  Heartbeat heartbeat;
  Clock::time_point now{};
  // The action at the next beat.
  Action beat() { return heartbeat.turn(now += kBeat, kPatience); }
};

}  // namespace

TEST_CASE("a Manager that answers is asked once per beat and never given up") {
  Waiting w;
  CHECK(w.beat() == Action::None);  // the wait has just begun
  for (int i = 0; i < 100; i++) {
    CHECK(w.beat() == Action::Ask);
    CHECK(w.heartbeat.turn(w.now + kBeat / 2, kPatience) == Action::None);
    w.heartbeat.heard();
  }
}

TEST_CASE("a Manager that is silent for as long as the patience is given up") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Action::Ask);
  for (int i = 1; i < Heartbeat::kBeats; i++) CHECK(w.beat() == Action::None);
  CHECK(w.beat() == Action::GiveUp);
}

TEST_CASE("a late answer counts") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Action::Ask);
  for (int i = 1; i < Heartbeat::kBeats; i++) w.beat();
  w.heartbeat.heard();
  CHECK(w.beat() == Action::Ask);
  CHECK(w.beat() == Action::None);
}

TEST_CASE("time that the process was asleep counts as one beat") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Action::Ask);
  w.now += 24h;
  CHECK(w.beat() == Action::None);
  w.now += 24h;
  CHECK(w.beat() == Action::None);
}

TEST_CASE("without a wait nothing is due") {
  Waiting w;
  CHECK_FALSE(w.heartbeat.next());
  w.beat();
  CHECK(w.heartbeat.next() == w.now + kBeat);
  w.beat();
  w.heartbeat.stop();
  CHECK_FALSE(w.heartbeat.next());
  CHECK(w.beat() == Action::None);
  CHECK(w.beat() == Action::Ask);
}
