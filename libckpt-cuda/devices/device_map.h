// SPDX-License-Identifier: Apache-2.0
//
// The map of devices for the driver's Restore.
//
// The problem. A move concerns one or two devices of the process. The driver wants more: a map that
// names every GPU that the kernel's driver saw at the checkpoint, used or not, each with a GPU of
// its own; another one fails with INVALID_VALUE (NVIDIA/cuda-python test_checkpoint.py,
// NVIDIA/cuda-checkpoint#35). And drivers before 580 take no map at all.
//
// Example. Four GPUs a b c d; the process uses a, and is to move to c. Asked for: a→c. The complete
// map: a→c, b→b, c→a, d→d.
//
// The algorithm. GPUs that the map does not name stay where they are, if that GPU exists and is not
// taken. The rest take what is left, in order. A map in which all stay where they are is left out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace ckpt::cuda {

using DeviceMap = std::vector<std::pair<std::string, std::string>>;  // UUIDs: from, to

// `before` and `now`: all GPUs of the machine at the checkpoint and of this one; empty: not known.
// Empty: no map is needed. An error: no such map exists.
Result<DeviceMap> complete_map(const DeviceMap &wanted, const std::vector<std::string> &before,
                               const std::vector<std::string> &now);

// Why a driver of this version (cuDriverGetVersion) cannot restore with `map`; empty: it can.
std::string reason_against_map(const DeviceMap &map, int driver_version);

}  // namespace ckpt::cuda
