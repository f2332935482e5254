// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Sends those of a launch's arguments that the proxy does not have. The caller holds k.mutex.
void send_arguments(Kernel &k, const ArgumentList &values);
bool all_arguments_set(const Kernel &k);
// A new proxy has no arguments, and its driver has accepted none.
void forget_proxy_state(Kernel &k);

}  // namespace ckpt::ocl
