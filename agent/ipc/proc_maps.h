// SPDX-License-Identifier: Apache-2.0
//
// The memory mappings of this process.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/proc/maps.h"

namespace ckpt::agent {

// /proc/self/maps. The descriptor is tracked (own_fd.h), so that a fork() does not inherit it.
Result<std::vector<ProcMapping>> own_mappings();

}  // namespace ckpt::agent
