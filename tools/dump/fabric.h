// SPDX-License-Identifier: Apache-2.0
//
// Networks past the kernel: RDMA and its relatives. The state of a connection is in the adapter,
// which neither CRIU nor ckpt can read, so only the program can close it and open it again. The
// libraries that use them are named, because a program seldom knows that it has such a connection.
#pragma once

#include <string>

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// "RDMA" for /dev/infiniband/uverbs0; "" for a device that is none of a network.
std::string fabric_of(const std::string &device);

// The adapters that processes have open or mapped.
void check_fabrics(const Target &target, Closables &reasons);

// For each process among the reasons that has loaded such a library: what it can do about them.
void name_libraries(const Target &target, Closables &reasons);

}  // namespace ckpt::tools
