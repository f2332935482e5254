// SPDX-License-Identifier: Apache-2.0
//
// Creating and destroying contexts.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// nullptr: the device has not enough free memory for the context itself.
Context *new_context(Device &d, unsigned flags);
void destroy_context(Context *c);
// Frees all that a context has and leaves it inactive.
void empty_context(Context *c);
// Makes an inactive context usable again.
CUresult activate(Context &c);

}  // namespace ckpt::softcuda::driver
