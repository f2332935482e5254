// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels and of functions in the program.
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// CUDA_ERROR_NOT_SUPPORTED, and a warning, if the attribute changes what the launch does and is not
// carried.
CUresult check_attribute(const CUlaunchAttribute &attribute);
// The program sets this attribute of a function.
void note_attribute_set(CUfunction_attribute what);
CUresult launch_packed(const CUlaunchConfig &config, CUfunction function, ByteView parameters);

// Calls the function in the program when the stream has got so far.
CUresult call_host(CUstream stream, Link::HostFunction function);

}  // namespace ckpt::remote::cuda
