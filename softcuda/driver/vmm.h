// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of cuMemCreate during a checkpoint.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// Copies the contents of all physical memory aside and frees it; allocates, fills and maps it
// again.
Result<> save_physical_memory();
Result<> restore_physical_memory();

}  // namespace ckpt::softcuda::driver
