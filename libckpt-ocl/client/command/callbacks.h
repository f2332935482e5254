// SPDX-License-Identifier: Apache-2.0
//
// clSetEventCallback. One thread of this library makes all callbacks; it starts with the first. It
// waits for completions like any caller, and therefore stands outside the gate during a checkpoint.
// OpenCL calls that a callback makes wait at the gate as well.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// `callback` is made once `e` has reached its status, immediately if it has already. Returns false
// if the system refuses the thread that makes callbacks.
bool add_callback(Event &e, Event::Callback callback);
// `e` has finished; called by the thread that received the completion.
void notify_finished(Event &e);
// In the child of a fork, which does not have the thread.
void reset_callbacks();

}  // namespace ckpt::ocl
