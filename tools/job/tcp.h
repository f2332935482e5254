// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Listens on a free port, on all addresses of this node. Also returns the port.
Result<std::pair<UniqueFd, u16>> listen_tcp();
// The addresses under which other nodes reach this one; those of the loopback interface come last.
std::vector<std::string> own_addresses();
Result<UniqueFd> connect_tcp(const std::string &address, u16 port,
                             std::chrono::milliseconds timeout);

}  // namespace ckpt::tools
