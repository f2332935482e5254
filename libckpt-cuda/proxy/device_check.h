// SPDX-License-Identifier: Apache-2.0
//
// Whether these devices can take over a process, and which of them replaces which device of the
// process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "libckpt-cuda/devices/device_map.h"
#include "libckpt-cuda/proxy/real_driver.h"

namespace ckpt::cuda {

struct DeviceCheck {
  std::vector<std::string> reasons;  // why not; empty: a restore can be tried
  DeviceMap map;
};

// `requirements` is the JSON of lifecycle/requirements.h. `chosen` holds the UUIDs that --device
// named, in its order; empty: no choice.
//
// Each device that the process uses is mapped to itself if that is offered and may be chosen, else
// to the first chosen device that is left, or without a choice to the first device that is left.
// Devices that it sees and does not use take what remains. Two devices never become one, because
// the driver does not support that.
DeviceCheck check_devices(const nlohmann::json &requirements,
                          const std::vector<RealDevice> &offered,
                          const std::vector<std::string> &chosen);

// Completes the map for the driver's Restore (devices/device_map.h), or adds the reason why there
// is none. `gpus`: all GPUs of this machine.
void complete_check(DeviceCheck &check, const nlohmann::json &requirements,
                    const std::vector<std::string> &gpus, int driver_version);

}  // namespace ckpt::cuda
