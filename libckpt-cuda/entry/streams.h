// SPDX-License-Identifier: Apache-2.0
//
// The state of streams that a checkpoint needs: whether one is being captured, because its work is
// then recorded and not executed.
#pragma once

namespace ckpt::cuda {

// Some stream is being captured into a graph.
bool capturing();

}  // namespace ckpt::cuda
