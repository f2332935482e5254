// SPDX-License-Identifier: Apache-2.0
//
// All devices of a node: what NVML measures, and OpenCL devices, which are told to us. One that is
// both, by its UUID, is one.
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

struct OpenClDevice {
  std::string uuid, name;
  u64 total = 0;           // bytes
  std::optional<u64> cap;  // what programs may have of it
};

// `nvml` may be null. An error: a cap for a device that is measured.
Result<std::unique_ptr<Meter>> make_node(std::unique_ptr<Meter> nvml,
                                         const std::vector<OpenClDevice> &devices);

}  // namespace ckpt::manager
