// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/resume.h"

#include <signal.h>

#include <chrono>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tools/device/remote.h"
#include "tools/dump/agents.h"
#include "tools/dump/suspend.h"
#include "tools/history/history.h"
#include "tools/phases.h"
#include "tools/proc/process.h"
#include "tools/proc/process_root.h"
#include "tools/restore/resumed_agents.h"
#include "tools/session/chosen_devices.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

constexpr int kAttempts = 3;

Result<std::vector<ResumedAgent>> suspended_agents(const Target &target) {
  CKPT_TRY(std::vector<ResumedAgent> all, greeted_agents(target));
  leave_out_running(all);
  return all;
}

Result<> refuse_if_any_reason(const std::vector<ResumedAgent> &all, const DeviceChoice &choice) {
  Reasons reasons = reasons_against(all, choice);
  if (reasons.empty()) return {};
  return fail_with_hint("the program cannot be resumed on these devices:" + as_list(reasons),
                        "the program stays suspended; choose other devices with --device");
}

Result<> wake(ResumedAgent &s, const std::string &session) {
  for (auto &[api, check] : s.checks)
    if (!check.map.empty()) CKPT_CHECK(s.agent.use_devices(api, check.map));
  return s.agent.wake(session);
}

// `woken`: how many processes run already, and then run.
Result<> wake_all(std::vector<ResumedAgent> &all, const std::string &session, size_t &woken) {
  return for_living(all, woken, [&](ResumedAgent &s) { return wake(s, session); });
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
  CKPT_TRY(std::vector<ResumedAgent> all, suspended_agents(target));
  if (former) {
    CKPT_CHECK(choose_devices_of(target, *former));
    CKPT_CHECK(check_devices_for(all, o, *former));
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

// The suspend has found the processes of its moment: of some the devices were opened since
// `target`.
void look_again(Target &target) {
  if (Result<Target> now = resolve_target(target.root)) target = std::move(*now);
}

bool moves(const std::vector<ResumedAgent> &all) {
  auto differs = [](const auto &pair) { return pair.first != pair.second; };
  for (const ResumedAgent &s : all)
    for (auto &[api, check] : s.checks)
      if (std::ranges::any_of(check.map, differs)) return true;
  return false;
}

bool at_memory(std::vector<ResumedAgent> &all) {
  return std::ranges::any_of(
      all, [](ResumedAgent &s) { return s.agent.depth() == protocol::Depth::Memory; });
}

// What is still on the old devices has to leave them, in all processes before any of them moves.
// Then it is known how much room it needs.
Result<> leave_old_devices(const Target &target, std::vector<ResumedAgent> &all) {
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

Result<> check_choice(const Target &target, std::vector<ResumedAgent> &all, const ResumeOptions &o,
                      const DeviceChoice &choice) {
  if (!shares_root(target.viewer)) return {};
  CKPT_CHECK(check_devices_for(all, o, choice));
  CKPT_CHECK(refuse_if_any_reason(all, choice));
  if (!moves(all) || !at_memory(all)) return {};
  CKPT_CHECK(leave_old_devices(target, all));
  CKPT_CHECK(check_devices_for(all, o, choice));
  return refuse_if_any_reason(all, choice);
}

Result<> give_devices(const Target &target, std::vector<ResumedAgent> &all,
                      const DeviceChoice &choice, size_t &woken) {
  if (!choice.empty()) CKPT_CHECK(choose_devices_of(target, choice));
  return wake_all(all, target.session_socket, woken);
}

// The process of a new device may end while it is loaded. A program that ran goes back; one that
// was suspended before stays so, and is offered its former devices again.
Result<> give_devices_or_go_back(const Target &target, std::vector<ResumedAgent> &all,
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
  if (former && !choice.empty()) (void)choose_devices_of(target, *former);
  return stays_suspended(target, given.error());
}

// Of a suspended program. Agents of earlier versions do not say it.
std::optional<u64> held_bytes(std::vector<ResumedAgent> &all) {
  u64 bytes = 0;
  for (ResumedAgent &one : all) {
    Result<DeviceTraffic> t = one.agent.traffic();
    if (!t) return std::nullopt;
    bytes += t->held_bytes;
  }
  return bytes;
}

}  // namespace

Result<ResumeReport> resume(const ResumeOptions &o) {
  Phases phases;
  phases.begin("resolve");
  Clock::time_point begin = Clock::now();
  CKPT_TRY(Target target, resolve_target(o.pid));
  CKPT_CHECK(check_container(target, o));
  CKPT_TRY(std::vector<ResumedAgent> all, greeted_agents(target));
  const std::set<std::string> apis = apis_of(all);
  leave_out_running(all);
  bool runs = all.empty();
  if (runs && o.device.empty())
    return fail_with_hint("the program is not suspended",
                          "name other devices with --device to move a program that runs");
  CKPT_CHECK(look_as_owner(target));
  CKPT_TRY(DeviceChoice choice, choose_devices(o.device));
  // Before the program is touched: it may have to go back to them.
  CKPT_TRY(std::optional<DeviceChoice> former, chosen_devices_of(target, apis));
  ResumeReport report{.pid = target.root, .processes = 0, .seconds = 0, .pause = {}, .line = {}};
  if (runs) {
    phases.begin("suspend");
    CKPT_TRY(report.pause, take_devices(target, o.rounds_ahead));
    look_again(target);
    Result<std::vector<ResumedAgent>> found = suspended_agents(target);
    if (!found) return go_back(target, {}, o, found.error());
    all = std::move(*found);
  }
  std::optional<u64> bytes = held_bytes(all);
  std::string program = executable_of(target.root);
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
  double enter = seconds_since(suspended);
  if (bytes && former)
    report.line = {.pid = target.root,
                   .program = program,
                   .apis = apis,
                   .from = place_of(*former),
                   .to = place_of(choice.empty() ? *former : choice),
                   .device_bytes = *bytes,
                   .leave = report.pause,
                   .enter = enter,
                   .seconds = report.seconds};
  if (report.pause) *report.pause += enter;
  return report;
}

Result<ResumeReport> resume_and_note(const ResumeOptions &o) {
  const HistoryFile history;  // opened before this becomes a process of another user
  Result<ResumeReport> r = resume(o);
  if (!r) history.append(failed_move("resume", o.pid, r.error().what));
  if (r && r->line) history.append(as_event(*r->line));
  return r;
}

}  // namespace ckpt::tools
