// SPDX-License-Identifier: Apache-2.0
#include "tools/start/copy_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/log.h"
#include "common/base/new_file.h"
#include "storage/format/pipe_format.h"
#include "tools/restore/copy_edits.h"
#include "tools/restore/restore.h"
#include "tools/start/namespaces.h"
#include "tools/start/shared.h"

namespace ckpt::tools {
namespace {

// Its own output, as much of it as is asked for, and this copy's part of the plan.
Result<RestoreOptions> prepare(const Copy &copy, const StartOptions &o, RestorePlan &plan) {
  RestoreOptions restore = o.restore;
  restore.copy = &copy;
  use_addresses(plan.manifest, copy.addresses, copy.facts.number);
  mark_links(plan.manifest, copy.mark);
  // CRIU opens it by its name if it was a file before, and compares its size.
  CKPT_CHECK(open_output(copy.output, O_TRUNC, 0644).transform([](auto &&) {}));
  CKPT_CHECK(enter_copy_namespaces(with_number(o.host_name, copy.facts.number)));
  return restore;
}

// While the copy starts, signals end it; later they are the program's.
void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGTERM); }
void live_without_parent() { ::prctl(PR_SET_PDEATHSIG, 0); }

Result<int> exit_code_of(const Keeper::Outcome &outcome) {
  if (outcome.error) return Failure(*outcome.error);
  if (!outcome.image) end_like(outcome.wait_status);
  log::info("checkpointed into {}", *outcome.image);
  return kCheckpointedExitCode;
}

}  // namespace

Result<int> run_copy(pid_t starter, Copy copy, const StartOptions &o, RestorePlan &plan,
                     const std::function<void(const nlohmann::json &)> &running) {
  end_with_parent();
  if (::getppid() != starter) return fail("ckpt-start has ended");
  ::setsid();
  copy.mark = ::getpid();
  Phases phases;
  phases.begin("copy");
  CKPT_TRY(RestoreOptions restore_options, prepare(copy, o, plan));
  phases.begin("session");
  CKPT_TRY(std::unique_ptr<Keeper> keeper,
           Keeper::create({plan.devices, restore_options.portable}));
  if (o.restore.image != storage::kPipeImage)
    keeper->image_written(std::filesystem::absolute(o.restore.image).lexically_normal());
  bool ready = false;
  keeper->hooks().signal = [&](int signal) {
    if (ready) return false;
    // One that runs already has not been reported as started.
    if (!keeper->cancel(signal)) keeper->kill_program();
    return true;
  };
  Keeper::Outcome outcome;
  {
    Restore restore(*keeper, restore_options, plan, phases, {}, [&](pid_t pid) {
      ready = true;
      live_without_parent();
      running({{"pid", pid}, {"seconds", phases.total_seconds()}, {"phases", phases.json()}});
    });
    outcome = keeper->run();
    if (std::optional<Error> cancelled = restore.cancelled()) outcome.error = std::move(cancelled);
  }
  keeper.reset();
  return exit_code_of(outcome);
}

}  // namespace ckpt::tools
