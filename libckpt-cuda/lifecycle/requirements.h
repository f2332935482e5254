// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "libckpt-cuda/lifecycle/devices.h"

namespace ckpt::cuda {

// What other devices must offer to take over this process: a JSON object, stored in the image and
// read by `ckpt-cuda-proxy --check`.
std::string requirements_as_json(const Devices &devices);

}  // namespace ckpt::cuda
