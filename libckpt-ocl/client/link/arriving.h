// SPDX-License-Identifier: Apache-2.0
//
// Contents that arrive while the restored program runs. The proxy has each command wait for those
// that it needs; only an access to shared pages, which is no command, has to ask.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Called before this process reads or writes pages that it shares with the proxy: waits until they
// have their contents. An error: they never get them.
cl_int wait_for_contents(Mem &m);

}  // namespace ckpt::ocl
