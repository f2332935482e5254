// SPDX-License-Identifier: Apache-2.0
//
// Files of devices and of their drivers, by their names.
#pragma once

#include <string>
#include <string_view>

namespace ckpt {

// The library of a driver: OpenCL's or CUDA's, not NVML, which may stay loaded. Compared with the
// file's name, because a program may be in a folder called pocl.
bool is_driver_file(std::string_view path);
bool is_cuda_driver_file(std::string_view path);
// A library of NVIDIA's driver that works with the kernel module of its own version alone, so it
// belongs to a machine. These are libnvidia-*, and libcuda.so with the driver's version as its name
// has it (libcuda.so.580.159.04); libcuda.so.1 is a link to it, or ckpt's.
bool is_file_of_kernel_driver(std::string_view path);

// A device file of NVIDIA's driver, as the target of a descriptor or the file of a mapping. The
// software device has a file in memory in its place (softcuda/broker/device_file.h).
bool is_cuda_device_file(std::string_view path);
// The same of any driver.
bool is_device_file(std::string_view path);
// The library of NVML, which opens the same device files as CUDA's driver.
bool is_nvml_file(std::string_view path);

// What to do about a device that NVML has open.
inline constexpr std::string_view kNvmlRemedy =
    "it uses NVML. Let it call nvmlShutdown() before a checkpoint, for example in a callback "
    "(ckpt_on_checkpoint)";

// What to do about a driver that a program has loaded itself, instead of ckpt's.
std::string remedy_for_driver(std::string_view path);

}  // namespace ckpt
