// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

// Moves this process, which has one thread, into mount and IPC namespaces of its own, with its own
// tmpfs at /dev/shm, as large as the machine's. `host_name`: into a UTS namespace with this name,
// too; "": none. The namespaces, with all files in that tmpfs, vanish with their last process.
Result<> enter_copy_namespaces(const std::string &host_name);

}  // namespace ckpt::tools
