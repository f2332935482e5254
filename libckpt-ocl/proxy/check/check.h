// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

struct CheckOptions {
  std::string devices;         // keys; empty: all
  bool ignore_limits = false;  // limits that were only read do not count; what was used does
};

// Whether the devices can take over a program with these needs (client/lifecycle/requirements.h):
// every reason why not, with names and numbers. Programs are compiled for the new device, so that
// what the compiler would say is said now and not in the middle of a restore. Empty: they can.
std::vector<std::string> check_requirements(const nlohmann::json &needs,
                                            const CheckOptions &options);

}  // namespace ckpt::ocl
