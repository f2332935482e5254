// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/json_depth.h"

namespace ckpt {

inline constexpr int kMaxJsonDepth = 32;  // of a message; a manifest may be deeper

// Parses text from another process, which may be anything. Returns a discarded value
// (is_discarded(), and none of the other types) if it is not JSON or is nested deeper than
// kMaxJsonDepth.
inline nlohmann::json parse_json(std::string_view text) {
  if (json_depth(text) > kMaxJsonDepth) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace ckpt
