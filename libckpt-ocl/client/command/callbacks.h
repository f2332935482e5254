// SPDX-License-Identifier: Apache-2.0
//
// clSetEventCallback. Callbacks are made by a thread of ours, started with the first of them; it
// waits for completions as any caller does, and so stands outside the gate during a checkpoint.
// What a callback calls in turn waits at the gate, too.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// `fn` will be called once `e` has reached the status `type`; soon, if it has already.
void add_callback(Event &e, Event::Callback callback);
// To be told by whoever finds that an event is over.
void notify_finished(Event &e);
// In a fork's child, where the thread is not.
void reset_callbacks();

}  // namespace ckpt::ocl
