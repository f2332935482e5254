// SPDX-License-Identifier: Apache-2.0
//
// Creates programs from the parts of a container, for the application and for the check before a
// restore.
#pragma once

#include "libckpt-ocl/container.h"
#include "ring/table.h"

namespace ckpt::ocl {

cl_program from_source(cl_context context, const std::string &source, cl_int &status);
// The same, then a build; `files` are those that it includes. The program may be returned without
// success, for its build log.
cl_program built_from_source(cl_context context, const std::vector<cl_device_id> &devices,
                             const std::string &source, const std::string &options,
                             const Headers &files, cl_int &status);
cl_program from_native(cl_context context, const std::vector<cl_device_id> &devices,
                       const std::vector<Bytes> &binaries, cl_int &status);
// Compiles every unit and links them; the result is an executable program. If a unit does not
// compile, its build log is added to `log`.
cl_program from_units(cl_context context, const std::vector<cl_device_id> &devices,
                      const std::vector<Container::Unit> &units, const std::string &options,
                      cl_int &status, std::string *log = nullptr);
// The beginning of the compiler's output.
std::string build_log(cl_program program, cl_device_id device);
// The driver's binaries, in the order of CL_PROGRAM_DEVICES.
cl_int native_binaries(cl_program program, std::vector<cl_device_id> &devices,
                       std::vector<Bytes> &binaries);

}  // namespace ckpt::ocl
