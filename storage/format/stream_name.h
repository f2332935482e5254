// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace ckpt::storage {

// A stream's name is a relative path that a reader may safely make a file of: 1 to 255 bytes of
// printable ASCII without '\', components parted by one '/', none of them "." or "..".
Result<> check_stream_name(std::string_view name);

// `text` with everything that a terminal might act upon replaced by \xNN; for messages.
std::string printable(std::string_view text);

}  // namespace ckpt::storage
