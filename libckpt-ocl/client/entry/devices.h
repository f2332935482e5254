// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The root devices that a context uses, directly or through a sub-device.
std::set<Device *> used_devices();
// Sends the program's devices to a new proxy and receives the real device that stands for each.
// Returns false if a device that a context uses has no counterpart.
bool map_devices();

// The platform that a NULL handle means; nullptr if there is none.
Platform *default_platform();

}  // namespace ckpt::ocl
