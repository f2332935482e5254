// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Sends the arguments that the proxy does not have yet.
void send_arguments(Kernel &k);
// The arguments as they are now, and a way to send them whatever they are then.
ArgumentList arguments_of(const Kernel &k);
void send_arguments(Kernel &k, const ArgumentList &values);
bool all_arguments_set(const Kernel &k);
// A new proxy knows nothing of what an old one had accepted.
void forget_proxy_state(Kernel &k);

}  // namespace ckpt::ocl
