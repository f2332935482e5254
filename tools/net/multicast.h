// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/net/socket_options.h"

namespace ckpt::tools {

// The multicast groups that a socket has joined. No call lists them, so the socket is asked for
// each group that an interface of its network namespace has (/proc/PID/net/igmp, igmp6).
std::vector<SocketGroup> groups_of(int socket, int pid);
// False if this machine has no such interface, or the group cannot be joined there.
bool join_group(int socket, const SocketGroup &group);

}  // namespace ckpt::tools
