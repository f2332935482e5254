// SPDX-License-Identifier: Apache-2.0
//
// What device memory holds: the parts of the arena, and arrays. With the gate closed, and from one
// thread.
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::remote::cuda {

Result<> save_contents(agent::Sink &sink);
Result<> load_contents(agent::Source &source);

}  // namespace ckpt::remote::cuda
