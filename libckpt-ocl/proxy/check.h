// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/real.h"

namespace ckpt::ocl {

// Whether the devices `keys` can take over a program with these needs (client/needs.h): every
// reason why not, with names and numbers. Programs are compiled for the new device, so that what
// the compiler would say is said now and not in the middle of a restore. Empty: they can.
std::vector<std::string> check_needs(const nlohmann::json &needs, const std::string &keys);

}  // namespace ckpt::ocl
