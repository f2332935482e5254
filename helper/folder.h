// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::helper {

// Makes the folder of a helper, which only root can write to, and removes what is left in it.
Result<> prepare_folder(const std::string &path);

// Removes what workers that were killed have left in the folder: folders of streams that no process
// holds (streams.h), and marks of namespaces that have ended (made_namespaces.h).
void remove_leftovers(const std::string &folder);

}  // namespace ckpt::helper
