// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/suspend.h"

#include <chrono>
#include <filesystem>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/device/apis.h"
#include "tools/device/remote.h"
#include "tools/dump/agents.h"
#include "tools/history/history.h"
#include "tools/history/moves.h"
#include "tools/phases.h"
#include "tools/session/chosen_devices.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using protocol::Depth;

constexpr int kAttempts = 5;

Result<> check_agents(Agents &agents, Depth depth) {
  Reasons reasons;
  agents.preflight(reasons);
  agents.check_depth(depth, reasons);
  if (reasons.empty()) return {};
  return fail_with_hint("the program cannot be suspended now:" + as_list(reasons),
                        "the program was not touched and keeps running");
}

// The contents are on the host already, and only the rest of the devices is given back.
Result<SuspendReport> deepen(Agents &agents, const SuspendOptions &options, pid_t program) {
  Depth now = agents.depth();
  if (now == Depth::Full || options.depth == Depth::Memory)
    return fail_with_hint(
        fmt::format("the program is suspended already, at depth {}", name_of(now)),
        "ckpt-restore --resume PID resumes it");
  if (!options.folder.empty())
    return fail_with_hint("the program is suspended already, and its contents are kept",
                          "leave out --to, or resume the program first");
  CKPT_TRY(u64 bytes, agents.deepen());
  return SuspendReport{.pid = program, .device_bytes = bytes, .deepened = true};
}

Result<SuspendReport> suspend_once(const SuspendOptions &options, Cancel &cancel, Target &target) {
  Phases phases;
  phases.begin("resolve");
  Clock::time_point begin = Clock::now();
  CKPT_TRY(target, resolve_target(options.pid));
  std::string folder =
      options.folder.empty() ? "" : std::filesystem::absolute(options.folder).string();
  phases.begin("preflight");
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  if (agents.empty())
    return fail_with_hint(fmt::format("the program of process {} uses no device", options.pid),
                          "only a program that uses a device can be suspended");
  if (agents.suspended()) {
    phases.begin("deepen");
    CKPT_TRY(SuspendReport r, deepen(agents, options, target.root));
    phases.begin("end");
    r.seconds = phases.seconds_since(begin);
    return r;
  }
  CKPT_CHECK(check_agents(agents, options.depth));
  phases.begin("prepare");
  if (folder.empty()) CKPT_CHECK(agents.prepare(options.prepare_bytes));
  phases.begin("copy ahead");
  CKPT_CHECK(agents.copy_ahead(options.rounds_ahead));
  phases.begin("quiesce");
  Clock::time_point paused = Clock::now();
  CKPT_CHECK(agents.quiesce(std::chrono::seconds(options.timeout_seconds)));
  phases.begin("suspend");
  CKPT_TRY(u64 bytes, agents.suspend(folder, target.session_socket, options.depth));
  SuspendReport report{.pid = target.root, .device_bytes = bytes, .depth = agents.depth()};
  phases.begin("end");
  report.seconds = phases.seconds_since(begin);
  report.pause_seconds = phases.seconds_since(paused);
  return report;
}

// A process that starts or ends meanwhile can make it fail, whatever the error says.
bool another_may_succeed(const Target &target, Cancel &cancel) {
  return cancel.check() && target.root != 0 && has_changed(target);
}

// Where its devices were. A program that ends meanwhile has no line.
std::optional<MoveLine> line_of(const SuspendReport &r) {
  Result<Target> target = resolve_target(r.pid);
  if (!target || r.deepened || r.depth != Depth::Full) return std::nullopt;
  std::set<std::string> apis;
  for (const Api &api : kApis) apis.insert(api.name);
  Result<std::optional<DeviceChoice>> devices = chosen_devices_of(*target, apis);
  if (!devices || !*devices) return std::nullopt;
  std::set<std::string> used;
  for (const auto &[api, ids] : **devices) used.insert(api);
  return MoveLine{.pid = r.pid,
                  .program = executable_of(r.pid),
                  .apis = used,
                  .from = place_of(**devices),
                  .to = {},
                  .device_bytes = r.device_bytes,
                  .leave = r.pause_seconds,
                  .enter = {},
                  .seconds = r.seconds};
}

}  // namespace

const char *name_of(Depth depth) {
  switch (depth) {
    case Depth::None: return "none";
    case Depth::Memory: return "memory";
    case Depth::Full: return "full";
  }
  return "?";
}

nlohmann::json as_json(const SuspendReport &r) {
  return {{"pid", r.pid},
          {"depth", name_of(r.depth)},
          {"device_bytes", r.device_bytes},
          {"seconds", r.seconds},
          {"pause_seconds", r.pause_seconds}};
}

std::string text_of(const SuspendReport &r, const std::string &folder) {
  std::string where = folder.empty() ? "in host memory" : "in " + printable(folder);
  if (r.deepened) where = "where they were";
  return fmt::format(
      "program  {0}, suspended (depth {1}); resume it with ckpt-restore --resume {0}\n"
      "devices  {2}; {3} of contents are kept {4}\ntime     {5:.3f} s\n",
      r.pid, name_of(r.depth),
      r.depth == Depth::Memory ? "their memory is released, contexts stay" : "released",
      human_bytes(r.device_bytes), where, r.seconds);
}

Result<SuspendReport> suspend(const SuspendOptions &options, Cancel &cancel) {
  auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  for (int attempt = 1;; attempt++) {
    Target target;
    Result<SuspendReport> done = suspend_once(options, cancel, target);
    if (done || attempt == kAttempts || Clock::now() >= deadline ||
        !another_may_succeed(target, cancel))
      return done;
    log::debug("the suspend is started again: {}", done.error().text());
  }
}

Result<SuspendReport> suspend_and_note(const SuspendOptions &o, Cancel &cancel) {
  Result<SuspendReport> r = suspend(o, cancel);
  if (!r) HistoryFile().append(failed_move("suspend", o.pid, r.error().what));
  if (!r) return r;
  // Contents that go to a folder take the time of its disk.
  std::optional<MoveLine> line = o.folder.empty() ? line_of(*r) : std::nullopt;
  if (line) HistoryFile().append(as_event(*line));
  return r;
}

}  // namespace ckpt::tools
