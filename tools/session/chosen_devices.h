// SPDX-License-Identifier: Apache-2.0
//
// For which devices a program's keeper starts proxies.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "tools/device/device.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// From now on.
Result<> choose_devices_of(const Target &target, const DeviceChoice &choice);
// So far, for these APIs. No value: an older keeper does not say it.
Result<std::optional<DeviceChoice>> chosen_devices_of(const Target &target,
                                                      const std::set<std::string> &apis);

}  // namespace ckpt::tools
