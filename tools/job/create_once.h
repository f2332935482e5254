// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// A file that is written whole, reaches the disk, and then gets its name by link(2): of several
// processes, on whatever nodes, one creates it, and none sees a part of it. False: the name is
// taken. `keep`: gets the file, locked (flock(2)).
Result<bool> create_once(const std::string &path, ByteView content, UniqueFd *keep = nullptr);
// The same for a file that may exist: it is replaced at once.
Result<> replace_file(const std::string &path, ByteView content, UniqueFd *keep = nullptr);

}  // namespace ckpt::tools
