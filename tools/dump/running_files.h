// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/criu/criu_files.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// What of CRIU's files a running program shows before CRIU writes them: its open files, and its
// private memory.
CriuFiles files_as_criu_saves_them(const Target &target);

}  // namespace ckpt::tools
