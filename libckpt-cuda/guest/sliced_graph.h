// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs of the program whose launches become calls for a stream, so that their kernels
// run in slices.
#pragma once

#include <functional>

#include "libckpt-cuda/guest/graph_mirror.h"

namespace ckpt::cuda::guest {

// The driver has made `exec` from `graph`, has updated it with `graph`, or has destroyed it.
void note_executable(CUgraphExec exec, CUgraph graph, unsigned long long flags);
void note_update(CUgraphExec exec, CUgraph graph);
void forget_executable(CUgraphExec exec);

// The driver has changed a node of `exec`. `change` does the same to the mirror; false: it cannot.
void follow(CUgraphExec exec, const std::function<bool(GraphMirror &)> &change);

// Launches `exec` in `stream`, which is an explicit one. `whole` calls the driver for it. The
// caller has passed the gate.
CUresult launch_graph(CUgraphExec exec, CUstream stream, const std::function<CUresult()> &whole);

}  // namespace ckpt::cuda::guest
