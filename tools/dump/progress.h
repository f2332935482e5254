// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/dump/dump.h"

namespace ckpt::tools {

// Runs the dump and shows its progress on standard error, unless `quiet`.
Result<DumpReport> with_progress(Dump &dump, bool quiet);

}  // namespace ckpt::tools
