// SPDX-License-Identifier: Apache-2.0
//
// How ckpt-run makes a program load our libcuda.so.1 instead of the driver. LD_LIBRARY_PATH does it
// for a program that is linked to libcuda.so.1 or opens it by name. LD_AUDIT does it for a program
// that opens the driver by its path, or has another one before ours: the loader asks an auditing
// library about every file (audit/). ckpt-run decides which programs get it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "libckpt-cuda/proxy/real_driver.h"

namespace ckpt::cuda {

// Changes of the program's environment; "in_front" values are prepended to lists:
//   {"software": bool, "set": {variable: value…}, "in_front": {variable: value…},
//    "audit": path of the auditing library}
// An empty object where there is no driver. `devices`: the UUIDs of those that the program may see,
// separated by commas; empty: all.
nlohmann::json environment(const RealDriver &driver, const std::string &devices);

}  // namespace ckpt::cuda
