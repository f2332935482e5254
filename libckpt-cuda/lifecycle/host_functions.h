// SPDX-License-Identifier: Apache-2.0
//
// The program's host functions and stream callbacks, which the driver runs on its own threads
// between the work of a stream or of a graph. They are counted while they run: the devices cannot
// become idle before they have returned, and they may wait for a thread that waits at the gate.
#pragma once

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// The number of those that the driver is running now.
int host_calls_running();
// While set, the last of them closes the gate when it returns, before any other call can come in.
void close_gate_after_host_calls(bool wanted);

struct HostFunction {
  CUhostFn function;
  void *data;
};
// What the driver is given for a node of a graph: it counts, and runs `given`. Lives as long as the
// process, because copies of the graph may run it, too.
HostFunction counted(const HostFunction &given);
// What the program gave, for what the driver has.
HostFunction uncounted(const HostFunction &of_driver);

}  // namespace ckpt::cuda
