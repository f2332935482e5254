// SPDX-License-Identifier: Apache-2.0
//
// The guest's turns on the device (slicing/cooperation.h), for all threads of the process.
#pragma once

#include "libckpt-cuda/guest/context_tools.h"

namespace ckpt::cuda::guest {

// The target time of a slice; 0: there is no target.
double target_ns();
// Whether work of `ns` may start in this turn. Without --guest always.
bool turn_has_room(double ns);
// Work of `ns` was given to the device, or has ended there. True: the turn is over.
enum class Work : u8 { Given, Ended };
bool turn_used(double ns, Work work);
// Tests the load and, if it is high, waits. The caller's own work on the device is done, and the
// caller is inside the gate; a checkpoint may take place while it waits.
void end_turn(ContextTools &tools);
// Waits while another thread's pause lasts.
void await_turn();

}  // namespace ckpt::cuda::guest
