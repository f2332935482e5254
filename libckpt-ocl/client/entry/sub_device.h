// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Frees a sub-device that nothing keeps: its partition makes it no more.
void destroy_sub_device(Device *d);

}  // namespace ckpt::ocl
