// SPDX-License-Identifier: Apache-2.0
//
// The driver's calls on a stream in the form that the program has used: handle 0 means another
// stream in the per-thread forms.
#pragma once

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

struct StreamForms {
  CUstream handle;
  bool per_thread;

  // With an error, the stream is of no use for other calls, either.
  CUresult is_capturing(bool &out) const;
  CUresult write(CUdeviceptr p, u64 value) const;
  // Until the word at `p` has reached `value`.
  CUresult wait(CUdeviceptr p, u64 value) const;
};

}  // namespace ckpt::cuda
