// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

// What one participant of a program requires of its devices.
struct ParticipantRequirements {
  std::string api;
  nlohmann::json needs;  // only the API's proxy understands it
};

// Parses what an agent has sent (protocol::Type::Saved). It may be anything: malformed parts are
// left out. `participants` are those of the agent's Welcome, in the same order.
std::vector<ParticipantRequirements> parse_requirements(
    std::string_view text, const std::vector<std::string> &participants);

}  // namespace ckpt::tools
