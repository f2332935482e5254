// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

// The reasons why the device cannot hold a program's images (the `images` of its requirements):
// formats that it does not support and sizes beyond its limits, by name.
void check_images(const RealDevice &device, const nlohmann::json &images,
                  std::vector<std::string> &reasons);

}  // namespace ckpt::ocl
