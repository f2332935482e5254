// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/dump/dump.h"

namespace ckpt::tools {

// Runs the dump, with its progress on standard error.
Result<DumpReport> with_progress(Dump &dump, bool quiet);

}  // namespace ckpt::tools
