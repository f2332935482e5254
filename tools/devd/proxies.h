// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remote/server/session.h"

namespace ckpt::tools {

// How ckpt-devd starts the process with this node's OpenCL drivers.
remote::ProxyStarter proxy_starter();

}  // namespace ckpt::tools
