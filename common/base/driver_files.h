// SPDX-License-Identifier: Apache-2.0
//
// Files of device drivers, by their names.
#pragma once

#include <string>
#include <string_view>

namespace ckpt {

// The library of a driver: OpenCL's or CUDA's. Compared with the file's name, because a program may
// be in a folder called pocl.
bool is_driver_file(std::string_view path);
bool is_cuda_driver_file(std::string_view path);

// What to do about a driver that a program has loaded itself, instead of ckpt's.
std::string remedy_for_driver(std::string_view path);

}  // namespace ckpt
