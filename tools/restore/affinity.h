// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

// Binds the threads of a restored program, which is still stopped, to the processors that they had
// chosen; CRIU does not. Where this machine has none of them, the thread may run on all processors
// that ckpt-restore may use, and a warning says so: the results are the same.
void restore_affinities(pid_t root, const ImageManifest &manifest);

}  // namespace ckpt::tools
