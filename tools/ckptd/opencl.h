// SPDX-License-Identifier: Apache-2.0
//
// ckptd --opencl-devices: which OpenCL devices of the node are managed.
#pragma once

#include <string>
#include <vector>

#include "manager/daemon/measure/node.h"

namespace ckpt::tools {

// `wanted`: "none", "gpus" (all but CPUs), "all", or a comma list of what --device of our tools
// takes for OpenCL, each with or without "=SIZE", the bytes that programs may have there.
Result<std::vector<manager::OpenClDevice>> opencl_devices(const std::string &wanted);

}  // namespace ckpt::tools
