// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ckpt::tools {

// Paths of the UNIX sockets on which `pid` listens and whose file name starts with `prefix`, found
// as /proc/PID/fd × /proc/PID/net/unix: nothing but the process itself can put them there.
std::vector<std::string> listening_sockets(pid_t pid, const std::string &prefix);

}  // namespace ckpt::tools
