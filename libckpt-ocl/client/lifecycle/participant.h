// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::ocl {

// OpenCL's participant in the life cycle. One per process, never destroyed.
agent::Participant *participant();

}  // namespace ckpt::ocl
