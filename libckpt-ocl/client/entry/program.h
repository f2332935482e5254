// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// What the program was linked from; empty if it was not, or if a part of it has no source.
std::vector<Container::Unit> link_units_of(const Program &p);

// Of a program that was built; empty if the driver does not say.
std::vector<std::string> kernel_names(Program &p);

// Was it, or a part that it was linked from, built with -cl-kernel-arg-info?
bool shows_argument_info(const Program &p);

}  // namespace ckpt::ocl
