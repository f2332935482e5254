// SPDX-License-Identifier: Apache-2.0
//
// Device mapping
//
// An image names the devices of the machine where it was made. A restore on another machine must
// decide which real device stands for each of them: the *mapping*. ckpt-restore needs the answer
// twice, for its check before the restore and in the restore itself, so both call
// map_program_devices().
//
//   the image was made on          this machine has                 --device
//   A "cpu" (used)                 A "cpu"                                     → A "cpu"
//   A "cpu" (used)                 B "gpu"                                     → refused
//   A "cpu" (used)                 B "gpu", C "gpu"                 0.0        → B "gpu"
//   A "x" (used), A "y" (used)     B "gpu"                          0.0        → B "gpu" for both
//   A "cpu" (not used)             B "gpu"                                     → none
//
// 1. A device with an identical one here (platform name, device name, position among the platform's
//    devices of that name) is mapped to that.
// 2. Otherwise, if the user chose devices (--device), the remaining used devices are mapped to the
//    chosen ones in order; the last one stands for all the rest.
// 3. A used device without a counterpart fails the mapping. An unused one becomes not present: the
//    program keeps its handle, but calls with it fail (CL_DEVICE_NOT_AVAILABLE, CL_INVALID_DEVICE).
//
// A device counts as used if a context contains it or a sub-device of it. Without the choice of the
// user nothing is mapped to a different device, because the program's results could change (another
// compiler, another rounding) although no user has asked for that.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

// A device as the program knows it.
struct ProgramDevice {
  u64 number = 0;
  bool used = false;
  std::string platform, name;
  u32 nth = 0;
};

// The real device for each device of the program; nullptr for an unused one without a counterpart.
// `chosen`: the user has chosen the devices in `all`.
Result<std::vector<const RealDevice *>> map_program_devices(
    const std::vector<ProgramDevice> &devices, const std::vector<RealPlatform> &all, bool chosen);

}  // namespace ckpt::ocl
