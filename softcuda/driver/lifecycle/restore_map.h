// SPDX-License-Identifier: Apache-2.0
//
// The map of devices that cuCheckpointProcessRestore takes.
#pragma once

#include <vector>

#include "softcuda/broker/protocol.h"
#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

struct DevicePair {
  CUuuid from, to;
};

inline constexpr u32 kNoDevice = ~0u;

// For each device of the process, the device of `now` that takes its place, or kNoDevice. `before`
// and `now` are the broker's devices at the checkpoint and today.
//
// A device with a context must be in the map (`pairs`, unless that is empty) and lead to an
// existing device. No two devices may lead to the same one. Devices without a context may be left
// out; they then have no memory.
//
// Strict: the map names each device of `before` once, seen by the process or not, and each with a
// device of its own. A driver older than 580 takes no map.
CUresult target_devices(const std::vector<DevicePair> &pairs,
                        const std::vector<broker::DeviceInfo> &before,
                        const std::vector<broker::DeviceInfo> &now, std::vector<u32> &places);

}  // namespace ckpt::softcuda::driver
