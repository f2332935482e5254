// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

// Sets what CRIU has not restored (dump/kernel_state.h), in a program that is still stopped. What
// cannot be set here is named in a warning: the program's results do not depend on it.
void restore_kernel_state(pid_t root, const ImageManifest &manifest);
// Where the image has CRIU's code instead (criu/first_code.h). The program must not run without it.
Result<> restore_first_code(pid_t root, const ImageManifest &manifest);

}  // namespace ckpt::tools
