// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Sets the profiling times of a finished command from the driver's.
void set_time_stamps(Event &e, const Completion &c);

}  // namespace ckpt::ocl
