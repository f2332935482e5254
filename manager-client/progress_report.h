// SPDX-License-Identifier: Apache-2.0
//
// The reports on the program's progress that the Manager may ask for: how many calls have given
// work to its device, and how long ago the last one was. The client's mutex guards them.
#pragma once

#include <chrono>
#include <optional>

#include "agent/participant/participant.h"
#include "common/base/clock.h"
#include "common/managed/messages.h"

namespace ckpt::manager_client {

class ProgressReport {
 public:
  // The first report is due at once.
  void start(std::chrono::milliseconds interval);
  void stop() { interval_ = {}; }
  bool wanted() const { return interval_.count() > 0; }
  Clock::time_point next() const { return next_; }
  // The report of this interval; no value: the program has made no call yet. `now_ns` is the time
  // of CLOCK_MONOTONIC_COARSE.
  std::optional<managed::to_manager::Progress> make(const agent::Participant::Calls &calls,
                                                    i64 now_ns);

 private:
  std::chrono::milliseconds interval_{0};  // 0: no reports are wanted
  Clock::time_point next_{};
  u64 calls_ = 0;       // since the start of the program
  u32 last_count_ = 0;  // the participants' counter, modulo 2^32
};

}  // namespace ckpt::manager_client
