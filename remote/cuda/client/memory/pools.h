// SPDX-License-Identifier: Apache-2.0
//
// Memory pools. All memory is of the arena, so a pool only counts what was allocated from it.
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// The pool that stream-ordered memory of a device comes from.
CUresult current_pool(CUdevice device, CUmemoryPool &out);
// Stream-ordered memory: the pool uses so many bytes more, and again fewer.
void allocated_from(CUmemoryPool pool, u64 base);
void freed_to_pool(u64 base);

}  // namespace ckpt::remote::cuda
