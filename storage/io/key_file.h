// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "storage/format/key.h"

namespace ckpt::storage {

// Reads the key in the file `path`: 32 bytes, or 64 hexadecimal digits with or without a newline.
Result<Key> read_key(const std::string &path);

}  // namespace ckpt::storage
