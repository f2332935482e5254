// SPDX-License-Identifier: Apache-2.0
//
// A call of the driver with a deadline. Of the driver's own checkpoint calls only Lock has one, and
// the others have been seen to hang (NVIDIA/cuda-checkpoint#58). A thread of its own
// makes the call (common/base/timed_call.h): when it has returned in time, no thread of it is in
// the dump.
#pragma once

#include <functional>
#include <optional>

#include "driver-checkpoint/checkpoint_entries.h"

namespace ckpt::cuda {

// No value: it has not returned in time. `if_late` runs if it succeeds afterwards.
std::optional<CUresult> call_in_time(std::function<CUresult()> function,
                                     std::function<void()> if_late = {});
// The deadline in seconds, for messages.
unsigned driver_deadline();

}  // namespace ckpt::cuda
