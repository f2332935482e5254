// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ckpt::manager {

// Since an arbitrary start: the policy has no clock.
using Time = std::chrono::microseconds;

inline double seconds(Time t) { return std::chrono::duration<double>(t).count(); }

}  // namespace ckpt::manager
