// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/suspend.h"

#include <filesystem>

#include "tools/dump/agents.h"
#include "tools/phases.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

Result<> check_agents(Agents &agents) {
  Reasons reasons;
  agents.preflight(reasons);
  if (reasons.empty()) return {};
  return fail_with_hint("the program cannot be suspended now:" + as_list(reasons),
                        "the program was not touched and keeps running");
}

}  // namespace

Result<SuspendReport> suspend(const SuspendOptions &options, Cancel &cancel) {
  Phases phases;
  phases.begin("resolve");
  Phases::Clock::time_point begin = Phases::Clock::now();
  CKPT_TRY(Target target, resolve_target(options.pid));
  std::string folder =
      options.folder.empty() ? "" : std::filesystem::absolute(options.folder).string();
  phases.begin("preflight");
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  if (agents.empty())
    return fail_with_hint(fmt::format("the program of process {} uses no device", options.pid),
                          "only a program that uses a device can be suspended");
  CKPT_CHECK(check_agents(agents));
  phases.begin("prepare");
  if (folder.empty()) CKPT_CHECK(agents.prepare(options.prepare_bytes));
  phases.begin("copy ahead");
  CKPT_CHECK(agents.copy_ahead(options.rounds_ahead));
  phases.begin("quiesce");
  Phases::Clock::time_point paused = Phases::Clock::now();
  CKPT_CHECK(agents.quiesce(std::chrono::seconds(options.timeout_seconds)));
  phases.begin("suspend");
  CKPT_TRY(u64 bytes, agents.suspend(folder, target.session_socket));
  phases.begin("end");
  return SuspendReport{target.root, bytes, phases.seconds_since(begin),
                       phases.seconds_since(paused)};
}

}  // namespace ckpt::tools
