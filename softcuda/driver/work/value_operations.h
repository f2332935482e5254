// SPDX-License-Identifier: Apache-2.0
//
// Writes of single values to memory that the device can reach, and waits for values there, in
// streams and as nodes of graphs.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

using ValueOperation = CUstreamBatchMemOpParams;

ValueOperation write_of(CUdeviceptr p, cuuint32_t value);
ValueOperation write_of(CUdeviceptr p, cuuint64_t value);
ValueOperation wait_for(CUdeviceptr p, cuuint32_t value, unsigned flags);
ValueOperation wait_for(CUdeviceptr p, cuuint64_t value, unsigned flags);

// CUDA_ERROR_INVALID_VALUE: the address is not aligned, or the device cannot reach it.
CUresult check(const ValueOperation &o);
// Execute it on this thread. The memory may be gone by now: then it does nothing.
void run(const ValueOperation &o);

}  // namespace ckpt::softcuda::driver
