// SPDX-License-Identifier: Apache-2.0
//
// Networks that bypass the kernel, such as RDMA. The state of a connection is in the adapter, which
// neither CRIU nor ckpt can read, so only the program can close it and open it again. Messages name
// the libraries that use such networks, because users seldom know that a program has such a
// connection.
#pragma once

#include <string>

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// "RDMA" for /dev/infiniband/uverbs0; "" for a device that does not belong to such a network.
std::string fabric_of(const std::string &device);

// The adapters that processes have open or mapped.
void check_fabrics(const Target &target, Closables &reasons);

// For each process among the reasons that has loaded such a library: how it can close the
// connections.
void name_libraries(const Target &target, Closables &reasons);

}  // namespace ckpt::tools
