// SPDX-License-Identifier: Apache-2.0
//
// What the driver offers besides slices, for the owner's work to come first: see priorities.cc.
#pragma once

#include <vector>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda::guest {

// Gives the launch the lowest priority, if it has one of its own. The configuration may refer to
// this object.
class LowestPriority {
 public:
  explicit LowestPriority(CUlaunchConfig &config);
  LowestPriority(const LowestPriority &) = delete;

 private:
  std::vector<CUlaunchAttribute> attributes_;
};

// Logs what the driver of the current context's device offers.
void report_alternatives();

}  // namespace ckpt::cuda::guest
