// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// The steps of a tool's main path and how long each took, from one monotonic clock.
class Phases {
 public:
  using Clock = std::chrono::steady_clock;

  // Ends the step before. With CKPT_TEST_STOP_AT=NAME the process kills itself here: the tests of
  // "a tool killed at each step" use it.
  void begin(const std::string &name);
  void end();
  double seconds_since(Clock::time_point t) const;
  // [{"name", "start", "seconds"}…], starts counted from the first.
  nlohmann::json json() const;

 private:
  struct Phase {
    std::string name;
    Clock::time_point start, stop;
  };
  std::vector<Phase> all_;
};

}  // namespace ckpt::tools
