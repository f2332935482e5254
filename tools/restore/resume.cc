// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resume.h"

#include <chrono>

#include "common/ipc/unix_socket.h"
#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/requirements.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/rights.h"
#include "tools/device/device.h"
#include "tools/phases.h"
#include "tools/proc/process_root.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using protocol::Type;
using std::chrono::steady_clock;

// One agent of the suspended program. A tool that was killed in the middle of a suspend or a resume
// leaves some agents running.
struct SuspendedAgent {
  AgentClient agent;
  bool suspended = false;
  std::vector<std::pair<std::string, DeviceCheck>> checks;  // by API
};

// Tells the keeper to start proxies for these devices from now on.
Result<> tell_keeper(const Target &target, const DeviceChoice &choice) {
  Writer body;
  body.put(protocol::kVersion).put(static_cast<u32>(choice.size()));
  for (auto &[api, ids] : choice) {
    body.str(api).put(static_cast<u32>(ids.size()));
    for (const std::string &id : ids) body.str(id);
  }
  CKPT_TRY(UniqueFd keeper, connect_unix_of(target.keeper, target.session_socket));
  CKPT_CHECK(send_message(keeper.get(), static_cast<u16>(Type::DevicesChosen), body.bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(keeper.get()));
  if (m && static_cast<Type>(m->type) == Type::Ok) return {};
  return fail("the session keeper refused the choice of devices");
}

// Root's tool looks for another user's devices as that user, as ckpt-restore does (become_owner()).
// That user may have other drivers, and their code must not run with root's rights.
Result<> look_as_owner(const Target &target) {
  std::optional<helper::Identity> owner = user_served(target);
  return owner ? become_user(*owner) : Result<>();
}

Result<std::vector<AgentClient>> connect_agents(const Target &target) {
  std::vector<AgentClient> all;
  for (size_t i = 0; i < target.agents.size(); i++) {
    CKPT_TRY(AgentClient agent, AgentClient::connect(target.agent_pids[i], target.agents[i]));
    all.push_back(std::move(agent));
  }
  return all;
}

// A container with its own root folder may have other drivers, so the agent chooses the devices
// itself.
Result<SuspendedAgent> check_one(AgentClient agent, const ResumeOptions &o,
                                 const DeviceChoice &choice, bool same_drivers) {
  CKPT_TRY(AgentClient::Welcome welcome, agent.hello("ckpt-restore"));
  SuspendedAgent one{std::move(agent), {}};
  one.suspended = welcome.state == protocol::State::Suspended;
  if (!one.suspended || !same_drivers) return one;
  CKPT_TRY(std::string text, one.agent.requirements());
  for (auto &[api, needs] : parse_requirements(text, welcome.participants)) {
    CKPT_TRY(DeviceCheck check, check_devices(api, choice, needs, o.ignore_limits));
    one.checks.emplace_back(api, std::move(check));
  }
  return one;
}

Result<> refuse_if_any_reason(const std::vector<SuspendedAgent> &all, const DeviceChoice &choice) {
  Reasons reasons;
  std::set<std::string> apis;
  for (const SuspendedAgent &s : all)
    for (auto &[api, check] : s.checks) {
      apis.insert(api);
      reasons.insert(reasons.end(), check.reasons.begin(), check.reasons.end());
    }
  if (std::string why = misdirected(choice, apis); !why.empty()) reasons.push_back(std::move(why));
  if (reasons.empty()) return {};
  return fail_with_hint("the program cannot be resumed on these devices:" + as_list(reasons),
                        "the program stays suspended; choose other devices with --device");
}

Result<> wake(SuspendedAgent &s, const std::string &session) {
  for (auto &[api, check] : s.checks)
    if (!check.map.empty()) CKPT_CHECK(s.agent.use_devices(api, check.map));
  return s.agent.wake(session);
}

}  // namespace

Result<ResumeReport> resume(const ResumeOptions &o) {
  Phases phases;
  phases.begin("resolve");
  steady_clock::time_point begin = steady_clock::now();
  CKPT_TRY(Target target, resolve_target(o.pid));
  bool same_drivers = shares_root(target.viewer);
  if (!same_drivers && !o.device.empty())
    return fail_with_hint(
        "the program runs in a container that has its own root folder, so its devices cannot be "
        "chosen from outside",
        "leave out --device, or run ckpt-restore --resume in the container");
  CKPT_TRY(std::vector<AgentClient> agents, connect_agents(target));
  CKPT_CHECK(look_as_owner(target));
  CKPT_TRY(DeviceChoice choice, choose_devices(o.device));
  std::vector<SuspendedAgent> all;
  for (AgentClient &agent : agents) {
    CKPT_TRY(SuspendedAgent one, check_one(std::move(agent), o, choice, same_drivers));
    all.push_back(std::move(one));
  }
  if (all.empty()) return fail("the program of process {} uses no device", o.pid);
  std::erase_if(all, [](const SuspendedAgent &s) { return !s.suspended; });
  if (all.empty())
    return fail_with_hint("the program is not suspended",
                          "only a program that ckpt-dump --suspend has suspended can be resumed");
  CKPT_CHECK(refuse_if_any_reason(all, choice));
  phases.begin("wake");
  if (!choice.empty()) CKPT_CHECK(tell_keeper(target, choice));
  for (SuspendedAgent &s : all) CKPT_CHECK(wake(s, target.session_socket));
  phases.begin("end");
  double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  return ResumeReport{target.root, all.size(), seconds};
}

}  // namespace ckpt::tools
