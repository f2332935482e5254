// SPDX-License-Identifier: Apache-2.0
//
// The state of streams that a checkpoint needs: whether a stream is being captured, because its
// work is then recorded and not executed, and whether the driver is running a host function of the
// program.
#pragma once

namespace ckpt::cuda {

// Some stream is being captured into a graph.
bool capturing();

// The number of the program's host functions and stream callbacks that the driver is running now.
int host_calls_running();
// While set, the last of them closes the gate when it returns, before any other call can come in.
void close_gate_after_host_calls(bool wanted);

}  // namespace ckpt::cuda
