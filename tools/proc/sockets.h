// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The paths of the UNIX sockets on which `pid` listens, if their file name starts with `prefix`.
// Both /proc/PID/fd and /proc/PID/net/unix must name a socket, so that no other process can claim
// to be this one.
std::vector<std::string> listening_sockets(pid_t pid, const std::string &prefix);

// Connects to the socket on which `pid` listens. The name alone proves nothing: its folder may be
// another user's, who can put another process's socket there. So the listener must be `pid`
// (SO_PEERCRED, unix(7)).
Result<UniqueFd> connect_unix_of(pid_t pid, const std::string &socket);

}  // namespace ckpt::tools
