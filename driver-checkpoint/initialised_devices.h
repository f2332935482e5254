// SPDX-License-Identifier: Apache-2.0
//
// The driver restores a process only on a device that is initialised: persistence mode is on, or
// another process has called cuInit (CUDA driver API, cuCheckpointProcessRestore). Where neither
// holds, a process of the session calls cuInit for the time of the restore.
#pragma once

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::cuda {

// The devices stay initialised until the descriptor is closed.
Result<UniqueFd> keep_devices_initialised();

}  // namespace ckpt::cuda
