// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace ckpt::storage {

// A stream's name is a relative path that a reader can safely use as a file name: 1 to 255 bytes of
// printable ASCII without '\', components separated by one '/', none of them "." or "..".
Result<> check_stream_name(std::string_view name);

}  // namespace ckpt::storage
