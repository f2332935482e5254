// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/unique_fd.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

// Locks an image that is about to be removed against a dump that would take it as its parent. Fails
// if there is such a dump already: it holds a shared lock until its image is complete.
Result<UniqueFd> lock_for_removal(FileSystem &fs, const std::string &path);

}  // namespace ckpt::storage
