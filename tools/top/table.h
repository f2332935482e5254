// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// ckptd's status (manager/daemon/report/status.h) as text of at most `width` columns. What is
// missing in it is shown as nothing; names are made harmless for a terminal.
std::string status_table(const nlohmann::json &status, int width);

}  // namespace ckpt::tools
