// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace ckpt::storage {

// A stream's name is a relative path that a reader can safely use as a file name: 1 to 255 bytes of
// printable ASCII without '\', components separated by one '/', none of them "." or "..".
Result<> check_stream_name(std::string_view name);

// `text` with every byte that a terminal could interpret replaced by \xNN, for messages.
std::string printable(std::string_view text);

}  // namespace ckpt::storage
