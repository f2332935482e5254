// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ckpt::tools {

// The paths of the UNIX sockets on which `pid` listens, if their file name starts with `prefix`.
// Both /proc/PID/fd and /proc/PID/net/unix must name a socket, so that no other process can claim
// to be this one.
std::vector<std::string> listening_sockets(pid_t pid, const std::string &prefix);

}  // namespace ckpt::tools
