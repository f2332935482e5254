// SPDX-License-Identifier: Apache-2.0
//
// Rewrites PTX so that variables of a module lie at given addresses instead of where the driver
// places them.
#pragma once

#include <string>
#include <unordered_map>

#include "remote/cuda/placing/module_text.h"

namespace ckpt::remote::cuda {

// `addresses`: of each variable that is not to be declared any more. If `constants`, all of the
// module's constants are among them.
Result<std::string> with_addresses(std::string_view ptx, const ModuleText &module,
                                   const std::unordered_map<std::string_view, u64> &addresses,
                                   bool constants);

}  // namespace ckpt::remote::cuda
