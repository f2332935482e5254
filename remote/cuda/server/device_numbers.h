// SPDX-License-Identifier: Apache-2.0
//
// The program's devices and those of the driver. A process of our own sees only the program's
// devices (CUDA_VISIBLE_DEVICES), so its numbers are the program's, unless other devices of the
// program are elsewhere (Op::Devices). In the program's own process the driver sees all devices of
// the node, before and after a move, so numbers are translated there.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

class DeviceNumbers {
 public:
  DeviceNumbers() = default;
  // The driver's numbers of the program's devices 0, 1, …; negative: that one is elsewhere
  explicit DeviceNumbers(std::vector<CUdevice> real) : real_(std::move(real)) {}

  // For a program of which only some devices are here: for each, its number among those, or -1.
  DeviceNumbers spread(const std::vector<CUdevice> &numbers) const {
    std::vector<CUdevice> all;
    for (CUdevice n : numbers) all.push_back(n < 0 ? n : real(n));
    return DeviceNumbers(std::move(all));
  }

  bool translates() const { return !real_.empty(); }
  int count() const { return static_cast<int>(real_.size()); }
  // A device that the program does not have stays one that does not exist.
  CUdevice real(CUdevice programs) const {
    if (!translates()) return programs;
    bool has = programs >= 0 && programs < count();
    CUdevice real = has ? real_[static_cast<size_t>(programs)] : CU_DEVICE_INVALID;
    return real < 0 ? CU_DEVICE_INVALID : real;
  }
  CUdevice programs(CUdevice real) const {
    if (!translates() || real < 0) return real;
    auto found = std::ranges::find(real_, real);
    return found == real_.end() ? CU_DEVICE_INVALID : static_cast<CUdevice>(found - real_.begin());
  }

 private:
  std::vector<CUdevice> real_;
};

// Which parameter of a line of cuda.api is the number of a device. CUdevice is an int, so types do
// not tell.
constexpr int device_parameter(std::string_view symbol) {
  constexpr std::pair<std::string_view, int> kAll[] = {
      {"cuDeviceGet", 1},  // the ordinal
      {"cuDeviceGetName", 2},
      {"cuDeviceGetUuid", 1},
      {"cuDeviceGetUuid_v2", 1},
      {"cuDeviceTotalMem_v2", 1},
      {"cuDeviceGetPCIBusId", 2},
      {"cuDeviceGetProperties", 1},
      {"cuDeviceComputeCapability", 2},
      {"cuDevicePrimaryCtxRelease_v2", 0},
      {"cuDevicePrimaryCtxSetFlags_v2", 0},
      {"cuDevicePrimaryCtxGetState", 0},
      {"cuDeviceGetDefaultMemPool", 1},
      {"cuDeviceGetMemPool", 1},
      {"cuDeviceSetMemPool", 0},
      {"cuDeviceGetAttribute", 2},
      {"cuDevicePrimaryCtxRetain", 1},
      {"cuDevicePrimaryCtxReset_v2", 0},
      {"cuCtxCreate_v2", 2},
      {"cuKernelGetAttribute", 3},
      {"cuKernelSetAttribute", 3},
      {"cuKernelSetCacheConfig", 2},
      {"cuDeviceGetTexture1DLinearMaxWidth", 3},
      {"cuArrayGetMemoryRequirements", 2},
      {"cuMipmappedArrayGetMemoryRequirements", 2},
  };
  for (const auto &[name, parameter] : kAll)
    if (name == symbol) return parameter;
  return -1;
}

// Which parameter points to where the driver writes one.
constexpr int device_result(std::string_view symbol) {
  constexpr std::pair<std::string_view, int> kAll[] = {
      {"cuDeviceGet", 0},
      {"cuDeviceGetByPCIBusId", 0},
      {"cuCtxGetDevice", 0},
      {"cuStreamGetDevice", 1},
  };
  for (const auto &[name, parameter] : kAll)
    if (name == symbol) return parameter;
  return -1;
}

}  // namespace ckpt::remote::cuda
