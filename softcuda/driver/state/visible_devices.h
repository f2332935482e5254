// SPDX-License-Identifier: Apache-2.0
//
// CUDA_VISIBLE_DEVICES.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// Indices of the broker's devices that this process sees, in the order of its own device numbers.
std::vector<u32> visible_devices(const std::vector<broker::DeviceInfo> &devices);

}  // namespace ckpt::softcuda::driver
