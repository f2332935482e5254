// SPDX-License-Identifier: Apache-2.0
//
// The status of the node's Manager, as ckpt-top(1) documents it.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// `path`: ckptd's socket; "": the usual one. The answer has to come within 10 s.
Result<UniqueFd> connect_manager(const std::string &path);
Result<nlohmann::json> manager_status(int socket);

}  // namespace ckpt::tools
