// SPDX-License-Identifier: Apache-2.0
//
// Times between events across a move. The events of another server are not recorded, so when they
// were is noted before: relative to an event of ours (the base) that was recorded last of all. On
// the new server a base is recorded first of all. Time counts as if both were one moment: what the
// program was without a device is left out, and the time between two events of one device is exact.
//
//     old device ──── a ──── base         new device   base ──── b ────
//                       2 ms                                3 ms          a to b: 5 ms
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// With the gate closed and the devices idle: when the program's events were recorded.
void note_event_times();
// On another server, with the program's objects: begins to count again.
void use_event_times();
// Milliseconds between two events. The driver does not know a time of an event that another one has
// recorded.
CUresult elapsed_time(float *ms, CUevent from, CUevent to);

}  // namespace ckpt::remote::cuda
