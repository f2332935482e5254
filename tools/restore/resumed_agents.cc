// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resumed_agents.h"

#include <chrono>

#include "common/base/log.h"
#include "tools/agent_link/requirements.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/rights.h"
#include "tools/proc/process_handle.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {

namespace {

// Of a process that is ending: it frees its memory first.
constexpr std::chrono::seconds kEndTimeout{5};

Result<ResumedAgent> greet(pid_t process, const std::string &socket) {
  CKPT_TRY(AgentClient agent, AgentClient::connect(process, socket));
  CKPT_TRY(AgentClient::Welcome welcome, agent.hello("ckpt-restore"));
  return ResumedAgent{std::move(agent), std::move(welcome), {}};
}

Result<> check_one(ResumedAgent &one, const ResumeOptions &o, const DeviceChoice &choice) {
  CKPT_TRY(std::string text, one.agent.requirements());
  for (auto &[api, needs] : parse_requirements(text, one.welcome.participants)) {
    CKPT_TRY(DeviceCheck check, check_devices(api, choice, needs, o.limits));
    warn_of_limits(check.warnings);
    one.checks.emplace_back(api, std::move(check));
  }
  return {};
}

}  // namespace

Result<std::vector<ResumedAgent>> greeted_agents(const Target &target) {
  if (target.agents.empty()) return fail("the program of process {} uses no device", target.root);
  std::vector<ResumedAgent> all;
  for (size_t i = 0; i < target.agents.size(); i++) {
    Result<ProcessHandle> handle = ProcessHandle::open(target.agent_pids[i]);
    Result<ResumedAgent> one = greet(target.agent_pids[i], target.agents[i]);
    if (one)
      all.push_back(std::move(*one));
    else if (handle ? !handle->ends_within(kEndTimeout)
                    : read_process(target.agent_pids[i]).has_value())
      return Failure(std::move(one).error());
  }
  if (all.empty()) return fail("all processes of the program that used a device have ended");
  return all;
}

Result<> for_living(std::vector<ResumedAgent> &all, size_t &done,
                    const std::function<Result<>(ResumedAgent &)> &f) {
  while (done < all.size()) {
    Result<> worked = f(all[done]);
    if (worked) {
      done++;
      continue;
    }
    // The last one: what ended it may be the resume.
    if (all.size() == 1 || !all[done].agent.has_ended()) return worked;
    log::warn("{}; the program goes on without it", worked.error().what);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return {};
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
  size_t checked = 0;
  return for_living(all, checked, [&](ResumedAgent &one) { return check_one(one, o, choice); });
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
