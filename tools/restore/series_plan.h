// SPDX-License-Identifier: Apache-2.0
//
// Which image of a series is restored.
#pragma once

#include <string>

#include "tools/restore/plan.h"
#include "tools/session/series.h"

namespace ckpt::tools {

// Whether the folder is that of a series (ckpt-run --image), and no image.
bool names_series(const std::string &folder);

// From the newest image that is not damaged. Any other reason against a restore holds for all of
// them, so that nothing is lost by an older image.
Result<RestorePlan> plan_series(RestoreOptions &o, Series &series);

}  // namespace ckpt::tools
