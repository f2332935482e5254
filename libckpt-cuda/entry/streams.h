// SPDX-License-Identifier: Apache-2.0
//
// The state of streams that a checkpoint needs: whether one is being captured, because its work is
// then recorded and not executed.
#pragma once

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// Some stream is being captured into a graph.
bool capturing();
// The context is destroyed, and so are its streams.
void forget_captures(CUcontext context);

}  // namespace ckpt::cuda
