// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/dump/dump.h"

namespace ckpt {

// Runs the dump, with a progress line on standard error while that is a terminal.
Result<DumpReport> with_progress(Dump &dump, bool quiet);

}  // namespace ckpt
