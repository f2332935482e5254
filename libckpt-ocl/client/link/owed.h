// SPDX-License-Identifier: Apache-2.0
//
// Contents that the proxy copies for a checkpoint while the program runs on. What changes a memory
// object has to wait for its copy, which the proxy then makes first.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Called before a command that writes to this object is sent, or before the host writes to pages
// that it shares with the proxy. The next increment reads the object again.
void will_be_written(Mem &m);

}  // namespace ckpt::ocl
