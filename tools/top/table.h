// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// The status of ckptd (manager/daemon/report/status.h) as lines of at most `width` columns. A
// missing value is shown as 0 or as nothing, and a control character in a name as
// \xNN.
std::string status_table(const nlohmann::json &status, int width);

}  // namespace ckpt::tools
