// SPDX-License-Identifier: Apache-2.0
//
// ckptd --opencl-devices: which OpenCL devices of the node are managed.
#pragma once

#include <string>
#include <vector>

#include "manager/daemon/measure/node.h"

namespace ckpt::tools {

// `wanted`: "none", "gpus" (all devices except CPUs), "all", or a list separated by commas of the
// device names that --device takes for OpenCL, each with an optional "=SIZE", the bytes that
// programs may use there. An error names the entry that matches no device or has no valid size.
Result<std::vector<manager::OpenClDevice>> opencl_devices(const std::string &wanted);

}  // namespace ckpt::tools
