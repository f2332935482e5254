// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "libckpt-cuda/lifecycle/driver_checkpoint.h"

namespace ckpt::cuda {

// What other devices must offer to take this process over: a JSON object, which
// `ckpt-cuda-proxy --check` reads.
std::string needs_as_json(const std::vector<DeviceFacts> &devices);

}  // namespace ckpt::cuda
