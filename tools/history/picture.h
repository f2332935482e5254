// SPDX-License-Identifier: Apache-2.0
//
// Dumps and restores with their steps as a picture: one row of bars for each, all on the same axis,
// which begins with the dump or restore.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// More rows are no picture: only the newest are drawn, and the title says so.
inline constexpr size_t kMostRows = 200;

std::string picture_of(const std::vector<nlohmann::json> &events);

}  // namespace ckpt::tools
