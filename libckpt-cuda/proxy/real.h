// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver and the devices of this machine, as a tool needs them before any program runs.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::cuda {

struct RealDriver {
  std::string path;       // empty: there is none
  bool software = false;  // the software device, because this machine has no GPU
};
// Where the driver is; starts nothing. CKPT_CUDA_DRIVER overrides.
RealDriver find_driver();

struct RealDevice {
  std::string name;
  std::string uuid;
  unsigned long long memory_bytes = 0;
  unsigned long long free_bytes = 0;
  int capability = 0;  // times ten
};
// Empty where the driver finds none. On a real GPU this takes as long as a driver takes to start.
Result<std::vector<RealDevice>> list_devices(const RealDriver &driver, bool with_free);

}  // namespace ckpt::cuda
