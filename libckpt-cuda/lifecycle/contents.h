// SPDX-License-Identifier: Apache-2.0
//
// Copies the contents of the memory that we serve to the staging memory of a tool, and back.
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::cuda {

// The sum of what save_contents() will write, in bytes, with each region rounded up to 4096.
u64 contents_bytes();
Result<> save_contents(agent::Sink &sink);
Result<> load_contents(agent::Source &source);

}  // namespace ckpt::cuda
