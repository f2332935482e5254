// SPDX-License-Identifier: Apache-2.0
//
// Rewrites PTX so that variables of a module lie at given addresses instead of where the driver
// places them, and so that handles of texture and surface objects are looked up in memory.
#pragma once

#include <string>
#include <unordered_map>

#include "remote/cuda/placing/handle_use.h"
#include "remote/cuda/placing/module_text.h"

namespace ckpt::remote::cuda {

// `addresses`: of each variable that is not to be declared any more. If `constants`, all of the
// module's constants are among them. `handles` without bytes: instructions for textures and
// surfaces stay as they are.
Result<std::string> with_addresses(std::string_view ptx, const ModuleText &module,
                                   const std::unordered_map<std::string_view, u64> &addresses,
                                   bool constants, HandleRange handles);

}  // namespace ckpt::remote::cuda
