// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/suspend.h"

#include <filesystem>

#include "tools/dump/agents.h"
#include "tools/phases.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

Result<> nothing_against(Agents &agents) {
  Reasons reasons;
  agents.preflight(reasons);
  if (reasons.empty()) return {};
  std::string all;
  for (const std::string &r : reasons) all += "\n  - " + r;
  return fail_with_hint("the program cannot be suspended now:" + all,
                        "nothing was touched; the program runs on");
}

}  // namespace

Result<SuspendReport> suspend(const SuspendOptions &options, Cancel &cancel) {
  auto begin = Phases::Clock::now();
  CKPT_TRY(Target target, resolve_target(options.pid));
  std::string folder =
      options.folder.empty() ? "" : std::filesystem::absolute(options.folder).string();
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  if (agents.none())
    return fail_with_hint(fmt::format("the program of process {} uses no device", options.pid),
                          "there is nothing to suspend");
  CKPT_CHECK(nothing_against(agents));
  CKPT_CHECK(agents.quiesce(std::chrono::seconds(options.timeout_seconds)));
  CKPT_TRY(u64 bytes, agents.suspend(folder, target.session_socket));
  double seconds = std::chrono::duration<double>(Phases::Clock::now() - begin).count();
  return SuspendReport{target.root, bytes, seconds};
}

}  // namespace ckpt::tools
