// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/objects.h"

namespace ckpt::ocl {

// Sends the arguments that the proxy does not have yet.
void send_arguments(Kernel &k);
bool all_arguments_set(const Kernel &k);
// A new proxy knows nothing of what an old one had accepted.
void forget_far_side(Kernel &k);

}  // namespace ckpt::ocl
