// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/requirements.h"

#include "common/base/json_text.h"

namespace ckpt::tools {

// An agent reports [{"api":…, "needs":…}…], or the needs alone; these belong to the participant at
// the same place in its Welcome.
std::vector<ParticipantRequirements> parse_requirements(
    std::string_view text, const std::vector<std::string> &participants) {
  std::vector<ParticipantRequirements> all;
  nlohmann::json list = parse_json(text);
  if (!list.is_array()) return all;
  for (size_t i = 0; i < list.size(); i++) {
    nlohmann::json &one = list[i];
    bool named = one.is_object() && one.contains("api") && one["api"].is_string();
    std::string api = i < participants.size() ? participants[i] : "";
    if (named) api = one["api"].get<std::string>();
    bool wrapped = one.is_object() && one.contains("needs");
    nlohmann::json needs = wrapped ? std::move(one["needs"]) : std::move(one);
    all.push_back({std::move(api), std::move(needs)});
  }
  return all;
}

}  // namespace ckpt::tools
