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

// Listens at a free port, on all addresses of this node. Returns the port, too.
Result<std::pair<UniqueFd, u16>> listen_tcp();
// By which other nodes reach this one; those of the loopback interface come last.
std::vector<std::string> own_addresses();
Result<UniqueFd> connect_tcp(const std::string &address, u16 port,
                             std::chrono::milliseconds timeout);

}  // namespace ckpt::tools
