// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resume.h"

#include <signal.h>

#include <chrono>
#include <functional>

#include "common/base/clock.h"
#include "common/base/fields.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/requirements.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/rights.h"
#include "tools/device/device.h"
#include "tools/dump/agents.h"
#include "tools/dump/suspend.h"
#include "tools/phases.h"
#include "tools/proc/process.h"
#include "tools/proc/process_handle.h"
#include "tools/proc/process_root.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

constexpr int kAttempts = 3;

// One agent of the program.
struct SuspendedAgent {
  AgentClient agent;
  AgentClient::Welcome welcome;
  std::vector<std::pair<std::string, DeviceCheck>> checks;  // by API
};

Result<std::optional<Message>> ask_keeper(const Target &target, Type type, const Writer &body) {
  CKPT_TRY(UniqueFd keeper, connect_unix_of(target.keeper, target.session_socket));
  CKPT_CHECK(send_message(keeper.get(), static_cast<u16>(type), body.bytes()));
  return receive_message(keeper.get());
}

// Tells the keeper to start proxies for these devices from now on.
Result<> tell_keeper(const Target &target, const DeviceChoice &choice) {
  Writer body;
  body.put(protocol::kVersion).put(static_cast<u32>(choice.size()));
  for (auto &[api, ids] : choice) {
    body.str(api).put(static_cast<u32>(ids.size()));
    for (const std::string &id : ids) body.str(id);
  }
  CKPT_TRY(std::optional<Message> m, ask_keeper(target, Type::DevicesChosen, body));
  if (m && static_cast<Type>(m->type) == Type::Ok) return {};
  return fail("the session keeper refused the choice of devices");
}

// A keeper closes a connection on which no request has come yet if too many of them wait; an older
// one does so after some seconds.
Result<Message> answer_of_keeper(const Target &target, Type type, const Writer &body) {
  Error why{"the session keeper gives no answer", "try again"};
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    Result<std::optional<Message>> m = ask_keeper(target, type, body);
    if (m && *m) return std::move(**m);
    if (!m) why = m.error();
  }
  return Failure(std::move(why));
}

// The devices of these APIs for which the keeper starts proxies now. No value: an older keeper does
// not say it.
Result<std::optional<DeviceChoice>> chosen_so_far(const Target &target,
                                                  const std::set<std::string> &apis) {
  DeviceChoice choice;
  for (const std::string &api : apis) {
    Writer body;
    body.put(protocol::kVersion).str(api);
    CKPT_TRY(Message m, answer_of_keeper(target, Type::ChosenWanted, body));
    if (static_cast<Type>(m.type) != Type::Ok) return std::nullopt;
    Reader r = m.reader();
    std::vector<std::string> ids = read_texts(r);
    if (!r.done()) return fail("the session keeper's answer is malformed");
    if (!ids.empty()) choice[api] = std::move(ids);
  }
  return choice;
}

// Root's tool looks for another user's devices as that user, as ckpt-restore does (become_owner()).
// That user may have other drivers, and their code must not run with root's rights.
Result<> look_as_owner(const Target &target) {
  std::optional<helper::Identity> owner = user_served(target);
  return owner ? become_user(*owner) : Result<>();
}

// Of a process that is ending: it frees its memory first.
constexpr std::chrono::seconds kEndTimeout{5};

Result<SuspendedAgent> greet(pid_t process, const std::string &socket) {
  CKPT_TRY(AgentClient agent, AgentClient::connect(process, socket));
  CKPT_TRY(AgentClient::Welcome welcome, agent.hello("ckpt-restore"));
  return SuspendedAgent{std::move(agent), std::move(welcome), {}};
}

// Without those of processes that end meanwhile, which need no devices.
Result<std::vector<SuspendedAgent>> greeted_agents(const Target &target) {
  if (target.agents.empty()) return fail("the program of process {} uses no device", target.root);
  std::vector<SuspendedAgent> all;
  for (size_t i = 0; i < target.agents.size(); i++) {
    Result<ProcessHandle> handle = ProcessHandle::open(target.agent_pids[i]);
    Result<SuspendedAgent> one = greet(target.agent_pids[i], target.agents[i]);
    if (one)
      all.push_back(std::move(*one));
    else if (handle && !handle->ends_within(kEndTimeout))
      return Failure(std::move(one).error());
  }
  if (all.empty()) return fail("all processes of the program that used a device have ended");
  return all;
}

// Runs `f` for each agent, and forgets those of processes that end meanwhile. `done`: where it
// begins, and how far it has come.
Result<> for_living(std::vector<SuspendedAgent> &all, size_t &done,
                    const std::function<Result<>(SuspendedAgent &)> &f) {
  while (done < all.size()) {
    if (Result<> worked = f(all[done]); worked)
      done++;
    else if (!all[done].agent.has_ended())
      return worked;
    else
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return {};
}

// A tool that was killed in the middle of a suspend or a resume leaves some agents running.
void leave_out_running(std::vector<SuspendedAgent> &all) {
  std::erase_if(
      all, [](const SuspendedAgent &s) { return s.welcome.state != protocol::State::Suspended; });
}

Result<std::vector<SuspendedAgent>> suspended_agents(const Target &target) {
  CKPT_TRY(std::vector<SuspendedAgent> all, greeted_agents(target));
  leave_out_running(all);
  return all;
}

std::set<std::string> apis_of(const std::vector<SuspendedAgent> &all) {
  std::set<std::string> apis;
  for (const SuspendedAgent &s : all)
    apis.insert(s.welcome.participants.begin(), s.welcome.participants.end());
  return apis;
}

Result<> check_one(SuspendedAgent &one, const ResumeOptions &o, const DeviceChoice &choice) {
  CKPT_TRY(std::string text, one.agent.requirements());
  for (auto &[api, needs] : parse_requirements(text, one.welcome.participants)) {
    CKPT_TRY(DeviceCheck check, check_devices(api, choice, needs, o.limits));
    warn_of_limits(check.warnings);
    one.checks.emplace_back(api, std::move(check));
  }
  return {};
}

Result<> check(std::vector<SuspendedAgent> &all, const ResumeOptions &o,
               const DeviceChoice &choice) {
  size_t checked = 0;
  return for_living(all, checked, [&](SuspendedAgent &one) { return check_one(one, o, choice); });
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

// `woken`: how many processes run already, and then run.
Result<> wake_all(std::vector<SuspendedAgent> &all, const std::string &session, size_t &woken) {
  return for_living(all, woken, [&](SuspendedAgent &s) { return wake(s, session); });
}

// A container with its own root folder may have other drivers, so there the agent chooses the
// devices itself.
Result<> check_container(const Target &target, const ResumeOptions &o) {
  if (o.device.empty() || shares_root(target.viewer)) return {};
  return fail_with_hint(
      "the program runs in a container that has its own root folder, so its devices cannot be "
      "chosen from outside",
      "leave out --device, or run ckpt-restore --resume in the container");
}

// What a failure leaves.
Failure stays_suspended(const Target &target, const Error &why) {
  return fail_with_hint(
      why.what,
      fmt::format("the program is suspended, with its data; ckpt-restore --resume {} resumes it, "
                  "also on other devices with --device",
                  target.root));
}

// The devices that the program had before are mapped like others: an attempt on new ones may have
// changed what stands for what.
Result<> wake_on_former(const Target &target, const std::optional<DeviceChoice> &former,
                        const ResumeOptions &o) {
  CKPT_TRY(std::vector<SuspendedAgent> all, suspended_agents(target));
  if (former) {
    CKPT_CHECK(tell_keeper(target, *former));
    CKPT_CHECK(check(all, o, *former));
    CKPT_CHECK(refuse_if_any_reason(all, *former));
  }
  size_t woken = 0;
  return wake_all(all, target.session_socket, woken);
}

// A program that ran until it was to be moved runs on with the devices that it had. `former`: what
// the keeper is to be told again.
Failure go_back(const Target &target, const std::optional<DeviceChoice> &former,
                const ResumeOptions &o, const Error &why) {
  Result<> back = wake_on_former(target, former, o);
  for (int attempt = 1; !back && attempt < kAttempts; attempt++) {
    log::debug("the program has not got back its devices yet: {}", back.error().text());
    back = wake_on_former(target, former, o);
  }
  if (back) return fail_with_hint(why.what, "the program runs on with the devices that it had");
  log::warn("the program has not got back the devices that it had: {}", back.error().text());
  return stays_suspended(target, why);
}

// Signals act as before when this ends.
class SignalMask {
 public:
  SignalMask() { ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_); }
  ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }
  SignalMask(const SignalMask &) = delete;
  SignalMask &operator=(const SignalMask &) = delete;

 private:
  sigset_t mask_;
};

// Suspends a program that runs. Its devices have been chosen, so that it does not wait for that.
Result<double> take_devices(const Target &target, u32 rounds_ahead) {
  SignalMask before;
  Cancel cancel;
  CKPT_TRY(SuspendReport r, suspend({.pid = target.root, .rounds_ahead = rounds_ahead}, cancel));
  return r.pause_seconds;
}

bool moves(const std::vector<SuspendedAgent> &all) {
  auto differs = [](const auto &pair) { return pair.first != pair.second; };
  for (const SuspendedAgent &s : all)
    for (auto &[api, check] : s.checks)
      if (std::ranges::any_of(check.map, differs)) return true;
  return false;
}

bool at_memory(std::vector<SuspendedAgent> &all) {
  return std::ranges::any_of(
      all, [](SuspendedAgent &s) { return s.agent.depth() == protocol::Depth::Memory; });
}

// What is still on the old devices has to leave them, in all processes before any of them moves.
// Then it is known how much room it needs.
Result<> leave_old_devices(const Target &target, std::vector<SuspendedAgent> &all) {
  all.clear();  // an agent talks to one tool at a time
  SignalMask before;
  Cancel cancel;
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  CKPT_CHECK(agents.deepen());
  agents.clear();
  CKPT_TRY(all, suspended_agents(target));
  return {};
}

Result<> check_choice(const Target &target, std::vector<SuspendedAgent> &all,
                      const ResumeOptions &o, const DeviceChoice &choice) {
  if (!shares_root(target.viewer)) return {};
  CKPT_CHECK(check(all, o, choice));
  CKPT_CHECK(refuse_if_any_reason(all, choice));
  if (!moves(all) || !at_memory(all)) return {};
  CKPT_CHECK(leave_old_devices(target, all));
  CKPT_CHECK(check(all, o, choice));
  return refuse_if_any_reason(all, choice);
}

Result<> give_devices(const Target &target, std::vector<SuspendedAgent> &all,
                      const DeviceChoice &choice, size_t &woken) {
  if (!choice.empty()) CKPT_CHECK(tell_keeper(target, choice));
  return wake_all(all, target.session_socket, woken);
}

// The process of a new device may end while it is loaded. A program that ran goes back; one that
// was suspended before stays so, and is offered its former devices again.
Result<> give_devices_or_go_back(const Target &target, std::vector<SuspendedAgent> &all,
                                 const DeviceChoice &choice, const ResumeOptions &o, bool ran,
                                 const std::optional<DeviceChoice> &former) {
  size_t woken = 0;
  Result<> given = give_devices(target, all, choice, woken);
  if (given) return {};
  bool gone = all.empty() || !ProcessTable::read().find(target.root);
  all.clear();  // an agent talks to one tool at a time
  if (gone) return given;
  if (woken > 0)
    given.error().what += fmt::format("; {} of its processes already use the new devices", woken);
  if (ran && former) return go_back(target, former, o, given.error());
  if (former && !choice.empty()) (void)tell_keeper(target, *former);
  return stays_suspended(target, given.error());
}

}  // namespace

Result<ResumeReport> resume(const ResumeOptions &o) {
  Phases phases;
  phases.begin("resolve");
  Clock::time_point begin = Clock::now();
  CKPT_TRY(Target target, resolve_target(o.pid));
  CKPT_CHECK(check_container(target, o));
  CKPT_TRY(std::vector<SuspendedAgent> all, greeted_agents(target));
  const std::set<std::string> apis = apis_of(all);
  leave_out_running(all);
  bool runs = all.empty();
  if (runs && o.device.empty())
    return fail_with_hint("the program is not suspended",
                          "name other devices with --device to move a program that runs");
  CKPT_CHECK(look_as_owner(target));
  CKPT_TRY(DeviceChoice choice, choose_devices(o.device));
  // Before the program is touched: it may have to go back to them.
  CKPT_TRY(std::optional<DeviceChoice> former, chosen_so_far(target, apis));
  ResumeReport report{.pid = target.root, .processes = 0, .seconds = 0, .pause = {}};
  if (runs) {
    phases.begin("suspend");
    CKPT_TRY(report.pause, take_devices(target, o.rounds_ahead));
    Result<std::vector<SuspendedAgent>> found = suspended_agents(target);
    if (!found) return go_back(target, {}, o, found.error());
    all = std::move(*found);
  }
  phases.begin("check");
  Clock::time_point suspended = Clock::now();
  Result<> fits = check_choice(target, all, o, choice);
  if (!fits && runs) {
    all.clear();
    return go_back(target, {}, o, fits.error());
  }
  if (!fits) return Failure(fits.error());
  phases.begin("wake");
  CKPT_CHECK(give_devices_or_go_back(target, all, choice, o, runs, former));
  report.processes = all.size();
  phases.begin("end");
  report.seconds = seconds_since(begin);
  if (report.pause) *report.pause += seconds_since(suspended);
  return report;
}

}  // namespace ckpt::tools
