// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Whole devices with a context on them or on a part of them.
std::set<Device *> used_devices();
// Tells a new proxy what our devices are called, and learns which of them it can stand for. False:
// a device that a context uses has no counterpart.
bool map_devices();

// What a NULL platform means here; nullptr if there is none.
Platform *default_platform();

}  // namespace ckpt::ocl
