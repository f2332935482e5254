// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Destroys a sub-device without references; its partition no longer recreates it.
void destroy_sub_device(Device *d);

}  // namespace ckpt::ocl
