// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// cuMemFreeAsync: memory of a pool or of a graph is freed behind the work of a stream.
CUresult free_in_order(CUdeviceptr p, Stream &s);

}  // namespace ckpt::softcuda::driver
