// SPDX-License-Identifier: Apache-2.0
//
// A launch in slices.
#pragma once

#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda::guest {

// What the program asked for. `call` launches a part: `grid` blocks with `params` or `extra`, in
// `stream`.
struct LaunchRequest {
  slicing::Dim grid{};
  CUstream stream = nullptr;  // CU_STREAM_LEGACY or CU_STREAM_PER_THREAD instead of 0
  void **params = nullptr;
  void **extra = nullptr;
  // Why this launch runs whole, whatever the kernel; null: no reason.
  const char *whole = nullptr;
  // It is a node of a graph, and the caller holds the StreamOrder of the stream.
  bool in_order = false;
};
using PartCall = CUresult (*)(const void *self, const slicing::Dim &grid, CUstream stream,
                              void **params, void **extra);

bool is_capturing(CUstream stream);

// The caller has passed the gate.
CUresult launch_sliced(Kernel &kernel, const LaunchRequest &request, const void *self,
                       PartCall call);

}  // namespace ckpt::cuda::guest
