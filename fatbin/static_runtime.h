// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::fatbin {

// An error if the program at `path` contains NVIDIA's static CUDA runtime, which authenticates the
// driver and therefore runs on NVIDIA's own only. No error for any other file.
Result<> refuse_static_runtime(const std::string &path);

}  // namespace ckpt::fatbin
