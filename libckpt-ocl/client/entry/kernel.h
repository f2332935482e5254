// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Sends those of a launch's arguments that the proxy does not have. The caller holds k.mutex.
void send_arguments(Kernel &k, const ArgumentList &values);
// The memory objects that a launch with these arguments uses, beside each argument. No value: an
// argument is not set, or the program has released the memory object that it names, and a launch is
// an error.
using ArgumentMemory = std::vector<Ref<Mem>>;
std::optional<ArgumentMemory> memory_of(const ArgumentList &values);
// A new proxy has no arguments, and its driver has accepted none.
void forget_proxy_state(Kernel &k);

}  // namespace ckpt::ocl
