// SPDX-License-Identifier: Apache-2.0
//
// All devices of a node: those that NVML measures, and OpenCL devices. A device that is both, by
// its UUID, appears once.
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

struct OpenClDevice {
  std::string uuid, name;
  u64 total = 0;           // bytes
  std::optional<u64> cap;  // what programs may use of it
};

// `nvml` may be null. An error: a cap for a device that is measured. The devices of NVML come
// first.
Result<std::unique_ptr<Meter>> make_node(std::unique_ptr<Meter> nvml,
                                         const std::vector<OpenClDevice> &devices);

}  // namespace ckpt::manager
