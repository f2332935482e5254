// SPDX-License-Identifier: Apache-2.0
//
// Is the Manager still there? Asked only while somebody waits for it: a hang-up tells of a daemon
// that has died, but not of one that was stopped or hangs. Knows no socket and no clock.
//
// Silence is counted in beats that were lived through here, not in time that has passed: a machine
// that slept, or a program that was stopped itself, has missed one beat and not all of them.
#pragma once

#include <chrono>
#include <optional>

namespace ckpt::manager_client {

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  enum class Do : unsigned char { Nothing, Ask, GiveUp };

  // So many beats of silence after a question are the end; together they are the patience.
  static constexpr int kBeats = 8;
  static Duration beat(Duration patience) { return patience / kBeats; }

  // Something has come, whatever it was.
  void heard() { asked_ = false, missed_ = 0; }
  // Nobody waits any longer.
  void rest() { *this = {}; }
  // What is to be done now, by somebody who waits; may be called too early and too often.
  Do turn(Clock::time_point now, Duration patience);
  // When turn() has something to do; none: nobody waits.
  std::optional<Clock::time_point> next() const { return next_; }

 private:
  std::optional<Clock::time_point> next_;
  bool asked_ = false;
  int missed_ = 0;
};

}  // namespace ckpt::manager_client
