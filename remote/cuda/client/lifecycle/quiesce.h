// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace ckpt::remote::cuda {

// With the gate closed: waits until no call is inside, and the devices are idle.
Result<> quiesce_devices(Clock::time_point deadline);

}  // namespace ckpt::remote::cuda
