// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Listens on all addresses of this node, and also returns the port. The port is none of `needed`,
// which the programs on this node still have to bind, and if possible none that the kernel chooses
// for a program.
Result<std::pair<UniqueFd, u16>> listen_tcp(const std::set<u16> &needed);
// The addresses under which other nodes reach this one; those of the loopback interface come last.
std::vector<std::string> own_addresses();
Result<UniqueFd> connect_tcp(const std::string &address, u16 port,
                             std::chrono::milliseconds timeout);

}  // namespace ckpt::tools
