// SPDX-License-Identifier: Apache-2.0
//
// The repair mode of TCP sockets (tcp(7), TCP_REPAIR). CRIU reads connections in this mode, and
// leaves them in it if it leaves the program stopped: if the program ended now, its connections
// would disappear without a packet to the other end. If the program continues, its connections must
// leave this mode, or they would carry no data.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "common/base/bytes.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

// SO_REUSEADDR by the inode of the socket. Repair mode overwrites it (tcp_setsockopt() of Linux),
// so it is read before.
using ReuseOfSockets = std::map<u64, int>;
ReuseOfSockets reuse_of_sockets(const std::vector<Process> &processes);

// All sockets of these processes. Where it is not known, SO_REUSEADDR becomes 1, so that a
// server can still bind its port again.
void leave_repair_mode(const std::vector<Process> &processes, const ReuseOfSockets &reuse);

}  // namespace ckpt::tools
