// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "storage/format/key.h"

namespace ckpt::storage {

enum class KeyAccess {
  Private,  // refuse a file that another user but root can read, or has made
  Shared
};

// Reads the key in the file `path`: 32 bytes, or 64 hexadecimal digits with or without a newline.
Result<Key> read_key(const std::string &path, KeyAccess access = KeyAccess::Private);

}  // namespace ckpt::storage
