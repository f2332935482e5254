// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/objects.h"

namespace ckpt::ocl {

// Of a program that was built; empty if the driver does not say.
std::vector<std::string> kernel_names(Program &p);

}  // namespace ckpt::ocl
