// SPDX-License-Identifier: Apache-2.0
//
// Brings the program's devices to rest: no call is inside the driver, no stream is being captured,
// and all submitted work has finished.
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace ckpt::cuda {

// Closes the gate and waits. The gate opens again for a moment while a host function of the program
// runs, because that function may wait for a thread that waits at the gate. Fails at the deadline.
// The gate stays closed in either case.
Result<> quiesce_devices(Clock::time_point deadline);

}  // namespace ckpt::cuda
