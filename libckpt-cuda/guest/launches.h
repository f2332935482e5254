// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels in slices, for callers inside this library.
#pragma once

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda::guest {

// 0 means another stream in the forms of the per-thread default stream.
CUstream explicit_stream(CUstream stream, bool per_thread);

// A launch in config.hStream, which is an explicit one. The caller has passed the gate and holds
// the StreamOrder of the stream.
CUresult launch_in_order(const CUlaunchConfig &config, CUfunction f, void **params, void **extra);

}  // namespace ckpt::cuda::guest
