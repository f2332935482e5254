// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ring/table.h"

namespace ckpt::ocl {

// Called before the process has a second thread: why_no_slices() may change the environment later.
void prepare_slice_test();

// Why launches on a device cannot be divided into slices; empty: they can. Runs a small kernel.
std::string why_no_slices(cl_device_id device);

}  // namespace ckpt::ocl
