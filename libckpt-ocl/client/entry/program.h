// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The option for kernel argument information, which tells handles from numbers in kernel arguments.
// Every build gets it; CL_PROGRAM_BUILD_OPTIONS shows it only if the application asked for it.
inline constexpr std::string_view kArgumentInfo = "-cl-kernel-arg-info";
bool asks_for_argument_info(const std::string &options);

// What the program was linked from, in place of a library what that was linked from. Empty if it
// was not linked, or if an input has no source.
std::vector<Container::Unit> link_units_of(const Program &p);

// The bytes of its variables at program scope (OpenCL C 2.0 and 3.0). The program is named by its
// number, because it may have been destroyed; it then has none.
size_t program_scope_bytes(u64 program, u64 device);

// Asks the driver what Program::build_info keeps. To be called after each build.
void keep_build_info(Program &p);

// The kernels of a built program; empty if the driver does not report them.
std::vector<std::string> kernel_names(Program &p);

// Whether the application built the program, or an input of it, with -cl-kernel-arg-info.
bool shows_argument_info(const Program &p);

}  // namespace ckpt::ocl
