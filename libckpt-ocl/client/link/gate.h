// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/gate.h"

namespace ckpt::ocl {

// The gate of the OpenCL API; every call passes it (entry/api_call.h).
agent::Gate &gate();

}  // namespace ckpt::ocl
