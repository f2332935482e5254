// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace ckpt::softcuda::driver {

// What cuInit does: connects to the broker and opens the devices, once for a process.
CUresult initialise();

}  // namespace ckpt::softcuda::driver
