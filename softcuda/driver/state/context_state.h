// SPDX-License-Identifier: Apache-2.0
//
// Making contexts, and making them usable again.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// nullptr: the device has not enough free memory for the context itself.
Context *new_context(Device &d, unsigned flags);
// Makes an inactive context usable again.
CUresult activate(Context &c);

}  // namespace ckpt::softcuda::driver
