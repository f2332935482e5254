// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of cuMemCreate, as a checkpoint sees it.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// Takes the bytes of all physical memory away; puts them back. Mappings of it are mapped again.
Result<> save_physical_memory();
Result<> restore_physical_memory();

}  // namespace ckpt::softcuda::driver
