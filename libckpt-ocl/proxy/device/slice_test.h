// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "libckpt-ocl/table.h"

namespace ckpt::ocl {

// Why launches on a device cannot be divided into slices; empty: they can. Runs a small kernel.
std::string why_no_slices(cl_device_id device);

}  // namespace ckpt::ocl
