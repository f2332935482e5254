// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ckpt::manager {

// Since any beginning; the policy has no clock.
using Time = std::chrono::microseconds;

}  // namespace ckpt::manager
