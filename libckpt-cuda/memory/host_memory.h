// SPDX-License-Identifier: Apache-2.0
//
// The page-locked host memory that the driver has allocated. It is kept with the memory of the
// process; only a forked child needs to know where it is (driver-checkpoint/forked_child.h).
#pragma once

#include "common/base/bytes.h"

namespace ckpt::cuda {

// Thread-safe. forget_host_memory() does nothing where none begins at `p`.
void note_host_memory(const void *p, u64 bytes);
void forget_host_memory(const void *p);
// Whether [begin, end) overlaps it.
bool has_host_memory(u64 begin, u64 end);

}  // namespace ckpt::cuda
