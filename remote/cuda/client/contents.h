// SPDX-License-Identifier: Apache-2.0
//
// What device memory holds: the parts of the arena, and the variables of loaded code. With the gate
// closed, and from one thread.
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::remote::cuda {

Result<> save_contents(agent::Sink &sink);
Result<> load_contents(agent::Source &source);
// On another server: whether the variables that were saved lie where they did. Kernels may have
// stored their addresses anywhere.
Result<> check_variables();

}  // namespace ckpt::remote::cuda
