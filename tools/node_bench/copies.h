// SPDX-License-Identifier: Apache-2.0
//
// Rates of copies between host and devices, through the OpenCL and the CUDA driver of the node.
// Both are loaded at run time, so the tool works where there is neither.
#pragma once

#include <string>
#include <vector>

namespace ckpt::tools {

struct CopyRates {  // GB/s, of pageable host memory
  std::string api, device;
  double host_to_device = 0, device_to_host = 0;
};

// Of each device; a device that cannot be measured is left out.
std::vector<CopyRates> copy_rates(size_t megabytes, double seconds);

}  // namespace ckpt::tools
