// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <fmt/format.h>

#include "common/base/bytes.h"

namespace ckpt::tools {

// The start of the names of all streams that agent `number` saves: "device/0/" of
// "device/0/ocl/mem-17".
inline std::string device_stream_prefix(u32 number) { return fmt::format("device/{}/", number); }

}  // namespace ckpt::tools
