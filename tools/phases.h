// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"

namespace ckpt::tools {

struct PhaseTimes {
  std::string name;
  double start = 0, seconds = 0;  // the start counts from that of the first step
};

// The steps of a tool's main path, with the time that each took on a monotonic clock.
class Phases {
 public:
  // Begins a step, which is also a test_point(), and ends the one before.
  void begin(const std::string &name);
  void end();
  double seconds_since(Clock::time_point t) const;
  // From the start of the first step to the end of the last one.
  double total_seconds() const;
  std::vector<PhaseTimes> times() const;
  // [{"name", "start", "seconds"}…]
  nlohmann::json json() const;

 private:
  struct Phase {
    std::string name;
    Clock::time_point start, stop;
  };
  std::vector<Phase> all_;
};

}  // namespace ckpt::tools
