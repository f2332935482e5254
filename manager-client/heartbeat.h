// SPDX-License-Identifier: Apache-2.0
//
// Checks whether the Manager still answers. A closed connection reveals a daemon that has died, but
// not one that is stopped or hangs, so a Ping is sent, but only while something waits for the
// Manager. Uses no socket and no clock.
//
// Silence is counted in heartbeats that this process has executed, not in time: if the machine was
// suspended, or the program itself was stopped, only one heartbeat was missed, not all of them.
#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.h"

namespace ckpt::manager_client {

class Heartbeat {
 public:
  using Duration = Clock::duration;
  enum class Action : unsigned char { None, Ask, GiveUp };

  // The number of unanswered heartbeats after which the connection counts as lost. Together they
  // last as long as the patience.
  static constexpr int kBeats = 8;
  static Duration beat(Duration patience) { return patience / kBeats; }

  // A message of any kind has arrived.
  void heard();
  // Nothing waits any longer.
  void stop() { *this = {}; }
  // What to do now, while something waits. May be called too early and too often.
  Action turn(Clock::time_point now, Duration patience);
  // The time of the next action; no value: nothing waits.
  std::optional<Clock::time_point> next() const { return next_; }

 private:
  std::optional<Clock::time_point> next_;
  bool asked_ = false;
  int missed_ = 0;
};

}  // namespace ckpt::manager_client
