// SPDX-License-Identifier: Apache-2.0
//
// Can these devices take a process over, and which of them stands for which of its own?
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "libckpt-cuda/proxy/real.h"

namespace ckpt::cuda {

struct Verdict {
  std::vector<std::string> reasons;                      // why not; none: it can be tried
  std::vector<std::pair<std::string, std::string>> map;  // UUIDs: from, to
};

// `needs` is what the process said of itself (needs.cc). `chosen`: UUIDs that --device named, in
// its order; empty: no choice. A used device goes to itself where it is offered, then to the chosen
// ones, or to whatever is left, in order. No two stand on one: a driver cannot do that.
Verdict check_needs(const nlohmann::json &needs, const std::vector<RealDevice> &offered,
                    const std::vector<std::string> &chosen);

}  // namespace ckpt::cuda
