// SPDX-License-Identifier: Apache-2.0
#include "common/base/driver_files.h"

#include <algorithm>
#include <array>

namespace ckpt {
namespace {

constexpr std::array<std::string_view, 5> kDrivers = {"libpocl", "libRusticl", "liboclgrind",
                                                      "libnvidia", "libcuda.so"};
// Kernels that PoCL has compiled are libraries with other names.
constexpr std::string_view kPoclKernels = "/pocl/kcache/";

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool is_driver_file(std::string_view path) {
  std::string_view file = file_of(path);
  bool named = std::ranges::any_of(kDrivers, [&](auto d) { return file.starts_with(d); }) &&
               !is_nvml_file(path);
  return named || path.find(kPoclKernels) != path.npos;
}

bool is_cuda_driver_file(std::string_view path) { return file_of(path).starts_with("libcuda.so"); }

bool is_file_of_kernel_driver(std::string_view path) {
  constexpr std::string_view kVersioned = "libcuda.so.";
  std::string_view file = file_of(path);
  if (file.starts_with("libnvidia-")) return true;
  return file.starts_with(kVersioned) && file.substr(kVersioned.size()).find('.') != file.npos;
}

bool is_cuda_device_file(std::string_view path) {
  return path.starts_with("/dev/nvidia") || path.starts_with("/memfd:softcuda-device");
}

bool is_device_file(std::string_view path) {
  return is_cuda_device_file(path) || path.starts_with("/dev/dri/") || path.starts_with("/dev/kfd");
}

bool is_nvml_file(std::string_view path) { return file_of(path).starts_with("libnvidia-ml.so"); }

// The wheel pocl-binary-distribution puts a driver beside the OpenCL loader in pyopencl's wheel,
// which loads it in addition to those of OCL_ICD_VENDORS.
std::string remedy_for_driver(std::string_view path) {
  if (is_cuda_driver_file(path))
    return "start the program with ckpt-run --audit (a static or setuid executable cannot be "
           "caught)";
  if (path.find("/pyopencl") != path.npos || path.find("/pocl_binary") != path.npos)
    return "pip uninstall pocl-binary-distribution, and install the driver for the machine (apt "
           "install pocl-opencl-icd)";
  return "let the program find OpenCL's drivers by OCL_ICD_VENDORS alone, which ckpt-run sets: do "
         "not link it to a driver, and install none beside its OpenCL loader";
}

}  // namespace ckpt
