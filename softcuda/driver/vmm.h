// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of cuMemCreate.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// Whether it was made for GPUDirect RDMA.
bool is_rdma_capable(u64 handle);

// For a checkpoint: copies the contents of all physical memory aside and frees it; allocates, fills
// and maps it again.
Result<> save_physical_memory();
Result<> restore_physical_memory();

}  // namespace ckpt::softcuda::driver
