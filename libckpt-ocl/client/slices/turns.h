// SPDX-License-Identifier: Apache-2.0
//
// The guest's turns on the device (slicing/cooperation.h), for all queues of the process. While a
// turn is over, every queue's window is closed (has_room in command.cc), so commands are deferred.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The target time of a slice, in nanoseconds.
double target_ns();
// Whether commands may be sent: the turn is not over. Without --guest always.
bool turn_is_on();
// Whether work of `ns` may still start in this turn. If not, the turn is over.
bool turn_has_room(u64 ns);
// A command was sent to the queue.
void turn_used(Queue &q, const Work &work);

}  // namespace ckpt::ocl
