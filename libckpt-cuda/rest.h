// SPDX-License-Identifier: Apache-2.0
//
// The program's devices come to rest: no call is inside, no stream is captured, nothing runs.
#pragma once

#include <chrono>

#include "common/base/result.h"

namespace ckpt::cuda {

// Closes the gate and waits. While a function of the program runs on a thread of the driver the
// gate opens again: it may wait for another thread of the program that waits at the gate. Fails at
// the deadline; the gate then stays closed, as it does when this succeeds.
Result<> come_to_rest(std::chrono::steady_clock::time_point deadline);

}  // namespace ckpt::cuda
