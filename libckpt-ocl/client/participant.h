// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::ocl {

// OpenCL's part in the life cycle; one per process, never destroyed.
agent::Participant *participant();

}  // namespace ckpt::ocl
