// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

// Loads NVML (libnvidia-ml.so.1, or the software device's) and asks it.
Result<std::unique_ptr<Meter>> open_nvml(const std::string &library);

}  // namespace ckpt::manager
