// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::fatbin {

// NVIDIA's static runtime asks NVIDIA's driver for a proof of what it is, so a program that carries
// it cannot run on another one. An error that says so, and what to do; none for all other files.
Result<> refuse_static_runtime(const std::string &path);

}  // namespace ckpt::fatbin
