// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/restore/plan.h"

namespace ckpt::tools {

// Whether a program that still runs, perhaps on another machine, could be restored here, as far as
// its description shows it. `file` has the description (ckpt-dump --check --json --manifest), which
// is hostile input.
Result<> check_needs(const RestoreOptions &o, const std::string &file);

}  // namespace ckpt::tools
