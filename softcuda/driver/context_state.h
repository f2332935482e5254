// SPDX-License-Identifier: Apache-2.0
//
// Creating and destroying contexts.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// nullptr: the device has not enough free memory for the context itself.
Context *new_context(Device &d, unsigned flags);
void destroy_context(Context *c);
// The primary context of a device; creates it on first use.
CUresult open_primary(Device &d, Context *&out);

}  // namespace ckpt::softcuda::driver
