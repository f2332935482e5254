// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resume.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "common/ipc/unix_socket.h"
#include "tools/agent/agent.h"
#include "tools/device/device.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
using protocol::Type;
using std::chrono::steady_clock;

struct Sleeper {
  AgentClient agent;
  std::vector<std::pair<std::string, DeviceCheck>> checks;  // by API
};

// Proxies that are started from now on are for these devices.
Result<> tell_keeper(const std::string &session, const DeviceChoice &choice) {
  Writer body;
  body.put(protocol::kVersion).put(static_cast<u32>(choice.size()));
  for (auto &[api, ids] : choice) {
    body.str(api).put(static_cast<u32>(ids.size()));
    for (const std::string &id : ids) body.str(id);
  }
  CKPT_TRY(UniqueFd keeper, connect_unix(session));
  CKPT_CHECK(send_message(keeper.get(), static_cast<u16>(Type::DevicesChosen), body.bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(keeper.get()));
  if (m && static_cast<Type>(m->type) == Type::Ok) return {};
  return fail("the session keeper does not take the choice of devices");
}

Result<Sleeper> check_one(const std::string &socket, const ResumeOptions &o,
                          const DeviceChoice &choice) {
  CKPT_TRY(AgentClient agent, AgentClient::connect(socket));
  CKPT_TRY(AgentClient::Welcome welcome, agent.hello("ckpt-restore"));
  if (welcome.state != protocol::State::Suspended)
    return fail_with_hint("the program is not suspended", "ckpt-dump --suspend does that");
  Sleeper sleeper{std::move(agent), {}};
  CKPT_TRY(std::string text, sleeper.agent.needs());
  json needs = json::parse(text, nullptr, false);
  for (size_t i = 0; needs.is_array() && i < needs.size() && i < welcome.participants.size(); i++) {
    const std::string &api = welcome.participants[i];
    CKPT_TRY(DeviceCheck check, check_devices(api, choice, needs[i], o.ignore_limits));
    sleeper.checks.emplace_back(api, std::move(check));
  }
  return sleeper;
}

Result<> no_reason_against(const std::vector<Sleeper> &all, const DeviceChoice &choice) {
  std::string reasons;
  std::set<std::string> apis;
  for (const Sleeper &s : all)
    for (auto &[api, check] : s.checks) {
      apis.insert(api);
      for (const std::string &r : check.reasons) reasons += "\n  - " + r;
    }
  if (std::string why = misdirected(choice, apis); !why.empty()) reasons += "\n  - " + why;
  if (reasons.empty()) return {};
  return fail_with_hint("the program cannot be resumed there:" + reasons, "it stays suspended");
}

Result<> wake(Sleeper &s, const std::string &session) {
  for (auto &[api, check] : s.checks)
    if (!check.map.empty()) CKPT_CHECK(s.agent.use_devices(api, check.map));
  return s.agent.wake(session);
}

}  // namespace

Result<ResumeReport> resume(const ResumeOptions &o) {
  auto begin = steady_clock::now();
  CKPT_TRY(Target target, resolve_target(o.pid));
  CKPT_TRY(DeviceChoice choice, choose_devices(o.device));
  std::vector<Sleeper> all;
  for (const std::string &socket : target.agents) {
    CKPT_TRY(Sleeper sleeper, check_one(socket, o, choice));
    all.push_back(std::move(sleeper));
  }
  if (all.empty()) return fail("the program of process {} uses no device", o.pid);
  CKPT_CHECK(no_reason_against(all, choice));
  if (!choice.empty()) CKPT_CHECK(tell_keeper(target.session_socket, choice));
  for (Sleeper &s : all) CKPT_CHECK(wake(s, target.session_socket));
  double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  return ResumeReport{target.root, all.size(), seconds};
}

}  // namespace ckpt::tools
