// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Sends the arguments that have changed since they were last sent.
void send_arguments(Kernel &k);
// A copy of the arguments for a deferred launch, and the function that sends the copy.
ArgumentList arguments_of(const Kernel &k);
void send_arguments(Kernel &k, const ArgumentList &values);
bool all_arguments_set(const Kernel &k);
// A new proxy has no arguments, and its driver has accepted none.
void forget_proxy_state(Kernel &k);

}  // namespace ckpt::ocl
