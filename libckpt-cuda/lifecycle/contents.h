// SPDX-License-Identifier: Apache-2.0
//
// Copies the contents of the memory that we serve to the staging memory of a tool, and back.
#pragma once

#include "agent/participant/participant.h"
#include "libckpt-cuda/memory/owned_memory.h"

namespace ckpt::cuda {

// The sum of what save_contents() will write, in bytes, with each region rounded up to 4096.
u64 contents_bytes();
// What the owner of the memory can copy itself is left to it.
Result<> save_contents(agent::Sink &sink, OwnedMemory &owned);
Result<> load_contents(agent::Source &source);

}  // namespace ckpt::cuda
