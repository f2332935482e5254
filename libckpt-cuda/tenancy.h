// SPDX-License-Identifier: Apache-2.0
//
// A program that shares its device with others (ckpt-run --managed, agent/tenant.h): what CUDA asks
// the Manager, and when. Only what changes device memory asks: the start, a context, and an
// allocation that the blocks at hand cannot serve; what is freed is told. All of it does nothing
// where nobody manages the program.
#pragma once

#include "libckpt-cuda/contexts.h"

namespace ckpt::cuda {

// Before cuInit of the driver: the program is given its device, which is the only one that it will
// see. Waits while none has room.
CUresult take_place();
// After it, and after the agent has been joined.
void place_taken();
void tell_context_made();

// Inside the gate. Memory in a block that there is costs no question.
CUresult allocate_as_tenant(const ContextInfo &context, u64 bytes, u64 &out);
void release_as_tenant(u64 base);
// A context is gone, with its memory.
void tell_freed();

}  // namespace ckpt::cuda
