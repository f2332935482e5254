// SPDX-License-Identifier: Apache-2.0
#include "manager-client/heartbeat.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace std::chrono_literals;
using Do = Heartbeat::Do;

namespace {

constexpr auto kPatience = 8s;
constexpr auto kBeat = 1s;

struct Waiting {
  Heartbeat liveness;
  Heartbeat::Clock::time_point now{};
  // What is done at the next beat.
  Do beat() { return liveness.turn(now += kBeat, kPatience); }
};

}  // namespace

TEST_CASE("a Manager that answers is asked once a beat, and never given up") {
  Waiting w;
  CHECK(w.beat() == Do::Nothing);  // somebody has just begun to wait
  for (int i = 0; i < 100; i++) {
    CHECK(w.beat() == Do::Ask);
    CHECK(w.liveness.turn(w.now + kBeat / 2, kPatience) == Do::Nothing);
    w.liveness.heard();
  }
}

TEST_CASE("a Manager that is silent for all of the patience is given up") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Do::Ask);
  for (int i = 1; i < Heartbeat::kBeats; i++) CHECK(w.beat() == Do::Nothing);
  CHECK(w.beat() == Do::GiveUp);
}

TEST_CASE("a late answer is one") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Do::Ask);
  for (int i = 1; i < Heartbeat::kBeats; i++) w.beat();
  w.liveness.heard();
  CHECK(w.beat() == Do::Ask);
  CHECK(w.beat() == Do::Nothing);
}

TEST_CASE("time that nobody lived through is one beat") {
  Waiting w;
  w.beat();
  CHECK(w.beat() == Do::Ask);
  w.now += 24h;
  CHECK(w.beat() == Do::Nothing);
  w.now += 24h;
  CHECK(w.beat() == Do::Nothing);
}

TEST_CASE("nobody waits: nothing is due") {
  Waiting w;
  CHECK_FALSE(w.liveness.next());
  w.beat();
  CHECK(w.liveness.next() == w.now + kBeat);
  w.beat();
  w.liveness.rest();
  CHECK_FALSE(w.liveness.next());
  CHECK(w.beat() == Do::Nothing);
  CHECK(w.beat() == Do::Ask);
}
