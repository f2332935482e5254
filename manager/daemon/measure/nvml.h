// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

// Loads and initialises NVML from `library` (libnvidia-ml.so.1, or the software device's).
Result<std::unique_ptr<Meter>> open_nvml(const std::string &library);

}  // namespace ckpt::manager
