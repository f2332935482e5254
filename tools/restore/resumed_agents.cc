// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resumed_agents.h"

#include "tools/agent_link/requirements.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/rights.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {

Result<std::vector<ResumedAgent>> greeted_agents(const Target &target) {
  std::vector<ResumedAgent> all;
  for (size_t i = 0; i < target.agents.size(); i++) {
    CKPT_TRY(AgentClient agent, AgentClient::connect(target.agent_pids[i], target.agents[i]));
    all.push_back({std::move(agent), {}, {}});
  }
  if (all.empty()) return fail("the program of process {} uses no device", target.root);
  for (ResumedAgent &one : all) {
    CKPT_TRY(one.welcome, one.agent.hello("ckpt-restore"));
  }
  return all;
}

void leave_out_running(std::vector<ResumedAgent> &all) {
  std::erase_if(
      all, [](const ResumedAgent &s) { return s.welcome.state != protocol::State::Suspended; });
}

std::set<std::string> apis_of(const std::vector<ResumedAgent> &all) {
  std::set<std::string> apis;
  for (const ResumedAgent &s : all)
    apis.insert(s.welcome.participants.begin(), s.welcome.participants.end());
  return apis;
}

Result<> check_container(const Target &target, const ResumeOptions &o) {
  if (o.device.empty() || shares_root(target.viewer)) return {};
  return fail_with_hint(
      "the program runs in a container that has its own root folder, so its devices cannot be "
      "chosen from outside",
      "leave out --device, or run ckpt-restore --resume in the container");
}

Result<> look_as_owner(const Target &target) {
  std::optional<helper::Identity> owner = user_served(target);
  return owner ? become_user(*owner) : Result<>();
}

Result<> check_devices_for(std::vector<ResumedAgent> &all, const ResumeOptions &o,
                           const DeviceChoice &choice) {
  for (ResumedAgent &one : all) {
    CKPT_TRY(std::string text, one.agent.requirements());
    for (auto &[api, needs] : parse_requirements(text, one.welcome.participants)) {
      CKPT_TRY(DeviceCheck check, check_devices(api, choice, needs, o.limits));
      warn_of_limits(check.warnings);
      one.checks.emplace_back(api, std::move(check));
    }
  }
  return {};
}

Reasons reasons_against(const std::vector<ResumedAgent> &all, const DeviceChoice &choice) {
  Reasons reasons;
  std::set<std::string> apis;
  for (const ResumedAgent &s : all)
    for (auto &[api, check] : s.checks) {
      apis.insert(api);
      reasons.insert(reasons.end(), check.reasons.begin(), check.reasons.end());
    }
  if (std::string why = misdirected(choice, apis); !why.empty()) reasons.push_back(std::move(why));
  return reasons;
}

}  // namespace ckpt::tools
