// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-sim shows of contention (HC): earliest completion time with and without it on the
// paper's task sets, or the predicted slowdowns of measured tasks in pairs.
#pragma once

#include "schedule/contention/ect.h"
#include "tools/sim/options.h"

namespace ckpt::tools {

// The table or the JSON text for --task-sets.
Result<std::string> compare_ect(const SimOptions &o);
// The same for --tasks, on the node of --node.
Result<std::string> predict_pairs(const SimOptions &o);

}  // namespace ckpt::tools
