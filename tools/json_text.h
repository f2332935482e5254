// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// A report as JSON in ASCII, so that no name in it can control a terminal. Bytes that are not UTF-8
// become U+FFFD. `indent` below 0: on one line.
inline std::string json_text(const nlohmann::json &j, int indent = -1) {
  return j.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace ckpt::tools
