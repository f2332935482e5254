// SPDX-License-Identifier: Apache-2.0
//
// After a dump with --leave-running: whether the program has its devices back.
#pragma once

#include "common/base/result.h"
#include "tools/dump/cancel.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Waits until every agent of `target` listens again, and fails if a process has lost its devices:
// the keeper, which kept CUDA's memory, or a proxy was killed meanwhile. A process that has ended
// has lost nothing.
Result<> check_devices_returned(const Target &target, const Cancel &cancel);

}  // namespace ckpt::tools
