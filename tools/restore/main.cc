// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore: starts a program from an image, and then is the keeper of its session.
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "common/base/log.h"
#include "helper/serve.h"
#include "storage/format/pipe_format.h"
#include "tools/command_line.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/restore/background.h"
#include "tools/restore/restore.h"
#include "tools/restore/resume.h"
#include "tools/session/standard_streams.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;

struct Options {
  RestoreOptions restore;
  bool truncate_files = false, append_files = false;
  std::optional<pid_t> resumed;
};

Result<int> end(const Keeper::Outcome &outcome) {
  if (outcome.error) return Failure(*outcome.error);
  if (!outcome.image) end_like(outcome.wait_status);
  report_checkpointed("ckpt-restore", *outcome.image);
  return kCheckpointedExitCode;
}

Result<int> run_restore(RestoreOptions o) {
  // Everything is checked before anything is started.
  Phases phases;
  phases.begin("check");
  CKPT_TRY(RestorePlan plan, make_plan(o));
  if (o.grown_files == GrownFiles::Truncate) CKPT_CHECK(truncate_files(plan.manifest));
  if (o.output_file.empty())
    o.output_file = fmt::format("{}/ckpt-{}.out", std::filesystem::current_path().string(),
                                plan.manifest.root_pid);
  // --detach: a child continues, and this process returns once the program runs.
  Background background;
  if (o.detach)
    if (std::optional<int> code = background.detach()) return *code;
  // From here on, for a program of another user than root, this is a process of that user.
  UniqueFd helper;
  if (plan.rights.by_helper()) {
    CKPT_TRY(helper, connect_helper(plan.rights, plan.criu));
  }
  if (plan.rights.way == CriuRights::Way::ForUser) CKPT_CHECK(become_user(plan.rights.user));
  // The keeper opens the new session.
  phases.begin("session");
  CKPT_TRY(std::unique_ptr<Keeper> keeper, Keeper::create({plan.devices, o.portable}));
  if (o.image != storage::kPipeImage)
    keeper->image_written(std::filesystem::absolute(o.image).lexically_normal());
  CKPT_TRY(std::unique_ptr<Periodic> periodic, Periodic::start(*keeper, o.periodic));
  // A thread restores the program, while this one serves the session until the program ends.
  Keeper::Outcome outcome;
  {
    Restore restore(*keeper, o, plan, phases, std::move(helper), [&](pid_t pid) {
      background.report(pid);
      release_streams();
    });
    outcome = keeper->run();
  }
  keeper.reset();
  return end(outcome);
}

Result<int> run_resume(const Options &o) {
  CKPT_TRY(ResumeReport r, resume({*o.resumed, o.restore.device, o.restore.ignore_limits}));
  fmt::print("program  {}, running again\ntime     {:.3f} s\n", r.pid, r.seconds);
  return 0;
}

// What the command line alone cannot check.
Result<> check(const Options &o) {
  if (o.resumed && !o.restore.image.empty())
    return fail_with_hint("--resume cannot be combined with an image", "leave one of them out");
  if (o.resumed && o.restore.continue_without_devices)
    return fail_with_hint("--resume cannot be combined with --continue-without-devices",
                          "a program that cannot be resumed stays suspended");
  if (!o.resumed && o.restore.image.empty())
    return fail_with_hint("no image was given", "name the image's folder, or - for standard input");
  if (o.truncate_files && o.append_files)
    return fail_with_hint("--truncate-files cannot be combined with --append-files",
                          "leave one of them out");
  return {};
}

Result<int> run(Options &o) {
  if (Result<> sound = check(o); !sound) return fail_with_code(kWrongUsage, sound.error());
  if (o.resumed) return run_resume(o);
  if (o.truncate_files) o.restore.grown_files = GrownFiles::Truncate;
  if (o.append_files) o.restore.grown_files = GrownFiles::Append;
  for (std::string *path : {&o.restore.output_file, &o.restore.json_report})
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  return run_restore(std::move(o.restore));
}

void add_options(CommandLine &line, Options &o) {
  RestoreOptions &r = o.restore;
  line.option("IMAGE", r.image, "the image's folder; -: standard input");
  line.option("--resume=PID", o.resumed,
              "instead of an image: a process of a program that ckpt-dump --suspend has suspended");
  line.option("--key-file=FILE", r.key_file, "the file with the key of an encrypted image");
  line.option("--device=LIST", r.device,
              "devices for the program: a comma-separated list of index, cuda:N, ocl:N, ocl:NAME "
              "or UUID")
      .default_is("every device");
  line.flag("--portable", r.portable, "report to the program only what every device offers");
  line.flag("--ignore-limits", r.ignore_limits,
            "accept devices with lower limits than the program has read, if it did not use them");
  line.flag("--continue-without-devices", r.continue_without_devices,
            "if the devices cannot be restored, let the program run on without them");
  line.flag("--detach", r.detach, "run in the background; print the program's PID and return");
  line.option("--output=FILE", r.output_file,
              "with --detach: the file for output to a terminal or pipe")
      .default_is("ckpt-PID.out");
  line.flag("--truncate-files", o.truncate_files,
            "truncate files that grew since the dump to their recorded size");
  line.flag("--append-files", o.append_files, "go on at the end of files that grew since the dump");
  line.option("--json-report=FILE", r.json_report,
              "write what was restored, and how long it took, to this file");
  add_periodic_options(line, r.periodic);
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  CommandLine line(
      "ckpt-restore",
      "Starts a program from an image that ckpt-dump wrote, as often as you like.\n"
      "Returns the program's exit code, or dies by the signal that killed it. Exit code "
      "85: the program was checkpointed again and stopped; 1: it could not be "
      "restored; 125: the arguments are wrong.");
  if (argc == 3 && std::string_view(argv[1]) == "--stem") return stem_main(argv[2]);
  if (is_helper(argc, argv)) return helper::serve_starter(argv + 2);
  Options o;
  add_options(line, o);
  return run_tool(line, argc, argv, kFailed, [&] { return run(o); });
}
