// SPDX-License-Identifier: Apache-2.0
//
// The map of devices for the driver's Restore.
//
// The problem. A move concerns one or two devices of the process. But the driver needs a map that
// names every GPU that the kernel's driver saw at the checkpoint, used or not, and assigns a
// different GPU to each; any other map fails with INVALID_VALUE (NVIDIA/cuda-python
// test_checkpoint.py, NVIDIA/cuda-checkpoint#35). Drivers before 580 accept no map at all.
//
// Example. Four GPUs a b c d; the process uses a, and is to move to c. Asked for: a→c. The complete
// map: a→c, b→b, c→a, d→d.
//
// The algorithm. GPUs that the map does not name are mapped to themselves, if that GPU exists and
// is not taken. The others get the remaining GPUs, in order. If every GPU is mapped to itself, no
// map is passed.
#pragma once

#include "driver-checkpoint/driver_checkpoint.h"

namespace ckpt::cuda {

// `before` and `now`: all GPUs of the machine at the checkpoint and of this one; empty: not known.
// Empty: no map is needed. An error: no such map exists.
Result<DeviceMap> complete_map(const DeviceMap &wanted, const std::vector<std::string> &before,
                               const std::vector<std::string> &now);

// Why a driver of this version (cuDriverGetVersion) cannot restore with `map`; empty: it can.
std::string reason_against_map(const DeviceMap &map, int driver_version);

}  // namespace ckpt::cuda
