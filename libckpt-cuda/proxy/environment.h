// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "libckpt-cuda/proxy/real.h"

namespace ckpt::cuda {

// How a program is led to our library, and that to the driver:
//   {"software": bool, "set": {variable: value…}, "in_front": {variable: value…}}
// Empty where there is no driver. `devices`: UUIDs, separated by commas, of those that the program
// may see; empty: all.
nlohmann::json environment(const RealDriver &driver, const std::string &devices);

}  // namespace ckpt::cuda
