// SPDX-License-Identifier: Apache-2.0
//
// The guest's turns on the device, for all threads of a process: the control loop (cooperation.h)
// behind a lock, in the times of the monotonic clock, which the caller reads.
#pragma once

#include <mutex>
#include <optional>
#include <string_view>

#include "common/base/clock.h"
#include "slicing/settings.h"

namespace ckpt::slicing {

class Turns {
 public:
  explicit Turns(const Settings &s) : settings_(s), cooperation_(s.cooperation) {}

  // The target time of a slice in nanoseconds; 0: there is no target.
  double target_ns();
  // Whether work of `ns` may still start in this turn. Without --guest always.
  bool has_room(double ns);
  // The guest's work uses the device for `ns` from `begin` on. True: the turn is over.
  bool used(double ns, Clock::time_point begin);

  struct After {
    Clock::time_point turn;                 // when the next one begins
    std::optional<Clock::time_point> test;  // of the load, before that
  };
  // The empty kernels of a load test took `ns` until `now`; `what` is for the log.
  After tested(std::string_view what, double ns, Clock::time_point now);

 private:
  const Settings settings_;
  std::mutex mutex_;
  Cooperation cooperation_;
};

}  // namespace ckpt::slicing
