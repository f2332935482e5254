// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore: starts a program from an image, and then is the keeper of its session.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "common/base/log.h"
#include "common/base/print.h"
#include "helper/serve.h"
#include "storage/format/pipe_format.h"
#include "tools/command_line.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/error_json.h"
#include "tools/history/history.h"
#include "tools/lazy/lazy_restore.h"
#include "tools/restore/background.h"
#include "tools/restore/grown_files.h"
#include "tools/restore/job_restore.h"
#include "tools/restore/needs.h"
#include "tools/restore/recorded_sockets.h"
#include "tools/restore/restore.h"
#include "tools/restore/restore_all.h"
#include "tools/restore/resume_command.h"
#include "tools/restore/series_plan.h"
#include "tools/restore/stand_by.h"
#include "tools/restore/supplied_files.h"
#include "tools/restore/take_over.h"
#include "tools/session/batch.h"
#include "tools/session/job_comment.h"
#include "tools/session/job_signals.h"
#include "tools/session/programs.h"
#include "tools/session/standard_streams.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;

struct Options {
  RestoreOptions restore;
  BatchOptions batch;
  bool truncate_files = false, append_files = false, append_output = false;
  std::string truncate_file;
  bool ignore_limits = false, strict_limits = false;
  std::optional<pid_t> resumed;
  u32 rounds_ahead = 0;
  std::string all;               // a folder with images
  std::optional<int> user_time;  // seconds
  JobOptions job;
  unsigned checkpoint = 0;
  std::string wait;  // "": for ever
  MigrationOptions migration;
  DryRunCommand dry_run;
};

Result<int> end(const Keeper::Outcome &outcome, int code, const RestoreOptions &o) {
  if (outcome.error && code == 0) return Failure(*outcome.error);
  if (outcome.error) {
    log::warn("{}", outcome.error->text());
    explain_in_job_comment(code, o.image);
    return code;
  }
  if (!outcome.image) end_like(outcome.wait_status);
  return report_stopped("ckpt-restore", outcome, o.periodic.job, code);
}

// After root's restore, the keeper is a process of the program's user, and so are its dumps. These
// would need the rights of root: the program is in a PID namespace that root has made.
Result<> check_later_images(const RestorePlan &plan, const RestoreOptions &o, const BatchJob *job) {
  if (plan.rights.way != CriuRights::Way::ForUser || (o.periodic.every.empty() && !job)) return {};
  return fail_with_hint(
      fmt::format("root cannot use {} for a program of uid {}",
                  job ? "a series of images" : "--every", plan.rights.user.uid),
      job ? "run this as that user, or name one of the images"
          : "run this as that user, or leave --every out and use ckpt-dump --leave-running");
}

void warn_of_original(const ImageManifest &m, const RestoreOptions &o) {
  GrownFiles::Choice choice = o.grown_files.choice;
  if (choice != GrownFiles::Append && choice != GrownFiles::AppendOutput) return;
  std::optional<uid_t> user = ::geteuid();
  if (*user == 0) user.reset();
  for (const RunningProgram &p : running_programs(user))
    if (p.session_folder == m.session_folder && p.root_ns_pid == m.root_pid)
      log::warn("the program of this image still runs (PID {}): both write to the same files",
                p.root);
}

Result<> check_job_user(const RestorePlan &plan, const RestoreOptions &o) {
  if (!o.job || plan.rights.way != CriuRights::Way::ForUser) return {};
  return fail_with_hint(fmt::format("root cannot restore a job of uid {}", plan.rights.user.uid),
                        "run this as that user");
}

void leave(JobRestore &job, const Keeper::Outcome &outcome) {
  if (!outcome.image && !outcome.error) job.program_ended(outcome.wait_status);
  job.leave();
}

Result<int> run_restore(RestoreOptions o, BatchJob *job, JobSignals signals) {
  // Everything is checked before anything is started.
  Phases phases;
  phases.begin("check");
  CKPT_CHECK(refuse_given_away(o));
  CKPT_TRY(RestorePlan plan, job ? plan_series(o, job->series()) : first_plan(o));
  CKPT_CHECK(check_later_images(plan, o, job));
  CKPT_CHECK(check_job_user(plan, o));
  if (o.check_only) return 0;
  warn_of_supplied_files(plan.manifest);
  warn_of_original(plan.manifest, o);
  warn_of_results(plan.manifest, o.grown_files);
  if (o.output_file.empty())
    o.output_file = fmt::format("{}/ckpt-{}.out", std::filesystem::current_path().string(),
                                plan.manifest.root_pid);
  // --detach: a child continues, and this process returns once the program runs.
  Background background;
  if (o.detach)
    if (std::optional<int> code = background.detach()) return *code;
  if (o.stand_by) CKPT_CHECK(o.stand_by->wait(o, plan));
  if (o.job) CKPT_CHECK(o.job->join(ports_of(plan.manifest)));
  const HistoryFile history;
  o.history = &history;
  // From here on, for a program of another user than root, this is a process of that user.
  OwnersHelp help;
  if (plan.rights.way == CriuRights::Way::ForUser) {
    CKPT_TRY(help, become_owner(plan, o));
  }
  CKPT_TRY(std::unique_ptr<LazyRestore> lazy,
           LazyRestore::of(std::move(plan.owed), plan.late_devices));
  o.served = lazy.get();
  // The keeper opens the new session.
  phases.begin("session");
  CKPT_TRY(std::unique_ptr<Keeper> keeper, Keeper::create({plan.devices, o.portable}));
  if (o.image != storage::kPipeImage)
    keeper->image_written(std::filesystem::absolute(o.image).lexically_normal());
  CKPT_TRY(std::unique_ptr<Periodic> periodic,
           Periodic::start(*keeper, o.periodic, job ? &job->series() : nullptr));
  if (job) CKPT_CHECK(job->start(*keeper, o.periodic.keep, periodic.get()));
  if (o.job) CKPT_CHECK(signals.start(*keeper, o.periodic.job, o.periodic.keep));
  // A thread restores the program, while this one serves the session until the program ends.
  Keeper::Outcome outcome;
  auto report = [&](pid_t pid) {
    if (o.take_over) o.take_over->runs();
    background.report(pid);
  };
  {
    Restore restore(*keeper, o, plan, phases, std::move(help), [&](pid_t pid) {
      report(pid);
      release_streams();
    });
    outcome = keeper->run();
    if (std::optional<Error> cancelled = restore.cancelled()) outcome.error = std::move(cancelled);
  }
  if (!outcome.error) report(keeper->program());  // it has ended at once
  keeper.reset();
  lazy.reset();
  if (o.job) leave(*o.job, outcome);
  return end(outcome, job ? job->end(outcome) : signals.exit_code(outcome), o);
}

ResumeOptions resume_options(const Options &o) {
  return {*o.resumed, o.restore.device, o.restore.limits, o.rounds_ahead};
}

std::set<std::string> named_files(const std::string &list) {
  std::set<std::string> files;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    files.insert(std::filesystem::absolute(word).lexically_normal());
  return files;
}

Result<int> run_all(const Options &o) {
  const RestoreOptions &r = o.restore;
  RestoreAllOptions all{.folder = o.all, .key_file = r.key_file};
  if (o.user_time) all.user_time = std::chrono::seconds(*o.user_time);
  if (r.shared_key) all.key_access = storage::KeyAccess::Shared;
  if (!r.device.empty()) all.options.insert(all.options.end(), {"--device", r.device});
  for (auto [given, flag] :
       {std::pair{r.portable, "--portable"}, std::pair{o.ignore_limits, "--ignore-limits"},
        std::pair{o.strict_limits, "--strict-limits"},
        std::pair{r.continue_without_devices, "--continue-without-devices"},
        std::pair{o.truncate_files, "--truncate-files"},
        std::pair{o.append_files, "--append-files"},
        std::pair{r.ignore_processor, "--ignore-processor"},
        std::pair{r.shared_key, "--shared-key"}, std::pair{r.trust_image, "--trust-image"}})
    if (given) all.options.emplace_back(flag);
  if (!o.truncate_file.empty())
    all.options.insert(all.options.end(), {"--truncate-file", o.truncate_file});
  return restore_all(all);
}

Result<> check_job(const Options &o) {
  if (!o.restore.image.empty() || !o.all.empty() || o.resumed || o.dry_run.given ||
      o.restore.periodic.folder != ".")
    return fail_with_hint(
        "--job cannot be combined with an image, --all, --resume, --dry-run or --image-dir",
        "leave these out: the job's folder has the images");
  return {};
}

// A series is opened to be continued.
Result<> check_dry_run(const Options &o) {
  if (!o.dry_run.given || o.resumed) return {};
  const std::string &image = o.restore.image;
  if (!o.all.empty() || image == storage::kPipeImage || names_series(image))
    return fail_with_hint("--dry-run is for one image, or for --resume",
                          "name an image's folder, without --all");
  return {};
}

// What the command line alone cannot check.
Result<> check(const Options &o) {
  if (!o.job.folder.empty()) return check_job(o);
  if (!o.all.empty() && (o.resumed || !o.restore.image.empty() || !o.restore.output_file.empty() ||
                         !o.restore.json_report.empty() || !o.restore.periodic.every.empty()))
    return fail_with_hint(
        "--all cannot be combined with an image, --resume, --output, --json-report or --every",
        "leave these out; each program writes to IMAGE.out");
  if (o.restore.lazy && (!o.all.empty() || o.resumed))
    return fail_with_hint("--lazy cannot be combined with --all or --resume", "name the image");
  if (o.restore.as_root && (!o.all.empty() || o.resumed))
    return fail_with_hint("--as-root cannot be combined with --all or --resume",
                          "name the image: it is a decision for each one");
  if (Result<> sound = check_dry_run(o); !sound) return sound;
  if (o.resumed && !o.restore.image.empty())
    return fail_with_hint("--resume cannot be combined with an image", "leave one of them out");
  if (o.resumed && o.restore.continue_without_devices)
    return fail_with_hint("--resume cannot be combined with --continue-without-devices",
                          "a program that cannot be resumed stays suspended");
  if (o.all.empty() && !o.resumed && o.migration.needs.empty() && o.restore.image.empty())
    return fail_with_hint("no image was given", "name the image's folder, or - for standard input");
  if (o.strict_limits && o.ignore_limits)
    return fail_with_hint("--strict-limits cannot be combined with --ignore-limits",
                          "leave one of them out");
  if (o.truncate_files && o.append_files)
    return fail_with_hint("--truncate-files cannot be combined with --append-files",
                          "leave one of them out");
  if (!o.batch.on_signal.empty() && !names_series(o.restore.image))
    return fail_with_hint("--on-signal needs a series of images",
                          "name the folder that ckpt-run --image has filled");
  return {};
}

Result<int> run(Options &o) {
  if (o.strict_limits) o.restore.limits = ReadLimits::Refuse;
  if (o.ignore_limits) o.restore.limits = ReadLimits::Ignore;
  if (o.resumed)
    return o.dry_run.given ? run_dry_run(o.dry_run, resume_options(o))
                           : run_resume(resume_options(o));
  if (!o.all.empty()) return run_all(o);
  if (const std::string &needs = o.migration.needs; !needs.empty())
    return check_needs(o.restore, needs).transform([] { return 0; });
  if (o.truncate_files) o.restore.grown_files = GrownFiles::Truncate;
  if (o.append_files) o.restore.grown_files = GrownFiles::Append;
  if (o.append_output) o.restore.grown_files = GrownFiles::AppendOutput;
  o.restore.grown_files.cut = named_files(o.truncate_file);
  std::string &output = o.restore.output_file;
  if (!output.empty()) output = std::filesystem::absolute(output).string();
  std::unique_ptr<JobRestore> member;
  JobSignals signals;
  if (!o.job.folder.empty()) {
    CKPT_TRY(signals, JobSignals::hold(o.batch.on_signal));
    CKPT_CHECK(complete(o.job));
    CKPT_TRY(member, JobRestore::choose(o.job, o.checkpoint));
    o.restore.job = member.get();
    o.restore.image = member->image();
    o.restore.periodic.job = o.job.folder;
    if (!o.wait.empty()) {
      CKPT_TRY(Seconds wait, parse_duration(o.wait));
      member->wait_at_most(wait);
    }
  }
  std::optional<TakeOver> take_over = take_over_of(o.migration);
  if (take_over) o.restore.take_over = &*take_over;
  StandBy stand_by(o.migration, o.restore);
  if (o.migration.stand_by) o.restore.stand_by = &stand_by;
  std::unique_ptr<BatchJob> job;
  if (names_series(o.restore.image)) {
    CKPT_TRY(job, BatchJob::open(o.restore.image, o.batch));
  }
  if (o.dry_run.given) o.restore.check_only = true;
  const std::string image = o.restore.image;
  Result<int> code = run_restore(std::move(o.restore), job.get(), std::move(signals));
  if (code && o.dry_run.given) say_possible(o.dry_run, image);
  return code;
}

// Only a program that runs has made another report.
Result<int> run_with_report(Options &o) {
  std::string &report = o.restore.json_report;
  if (!report.empty()) report = std::filesystem::absolute(report).string();
  const std::string file = report;
  if (Result<> sound = check(o); !sound) return fail_with_report(file, kWrongUsage, sound.error());
  return with_report(run(o), file, kFailed);
}

void add_options(CommandLine &line, Options &o) {
  RestoreOptions &r = o.restore;
  line.option(
      "IMAGE", r.image,
      "the image's folder, or the folder of a series (ckpt-run --image); -: standard input");
  Option resumed = line.option(
      "--resume=PID", o.resumed,
      "instead of an image: a process of a program that ckpt-dump --suspend has suspended, "
      "or of one that runs and is to move to the devices of --device");
  line.option(
          "--copy-ahead=ROUNDS", o.rounds_ahead,
          "with --resume of a program that runs: rounds in which contents of remote CUDA devices "
          "are copied before it is paused")
      .range(0, 100)
      .needs(resumed);
  add_dry_run_options(line, o.dry_run, resumed);
  Option all = line.option(
      "--all=FOLDER", o.all,
      "instead of an image: restore, in the background, the newest image of each program whose "
      "images are in this folder");
  line.option("--user-time=SECONDS", o.user_time,
              "with --all: how long the programs of one user may take together; what is not "
              "restored by then is given up")
      .needs(all)
      .default_is("no limit");
  line.option("--key-file=FILE", r.key_file, "the file with the key of an encrypted image");
  line.flag("--shared-key", r.shared_key, "accept a key file that other users can read");
  line.flag("--trust-image", r.trust_image,
            "restore an image that another user owns or can change: it runs with your rights");
  line.flag("--as-root", r.as_root,
            "restore, with root's rights, a program that is not root's alone: trust its users");
  line.option("--device=LIST", r.device,
              "devices for the program: a comma-separated list of index, cuda:N, ocl:N, ocl:NAME "
              "or UUID")
      .default_is("every device");
  line.flag("--portable", r.portable, "report to the program only what every device offers");
  line.flag("--strict-limits", o.strict_limits,
            "refuse devices with lower limits than the program has read");
  line.flag("--ignore-limits", o.ignore_limits,
            "accept such devices without a warning, if the program did not use the limits");
  line.flag("--continue-without-devices", r.continue_without_devices,
            "if the devices cannot be restored, let the program continue without them");
  line.flag("--detach", r.detach, "run in the background; print the program's PID and return");
  line.option("--output=FILE", r.output_file,
              "with --detach: the file for output to a terminal or pipe")
      .default_is("ckpt-PID.out");
  line.flag("--truncate-files", o.truncate_files,
            "truncate files that have grown since the dump to their recorded size, but no "
            "databases and no files that other programs have open for writing");
  line.option(
      "--truncate-file=FILE", o.truncate_file,
      "truncate this file, or these, separated by commas, whatever they are; a copy is kept");
  line.flag("--append-files", o.append_files,
            "continue at the end of files that have grown since the dump");
  line.flag("--append-output", o.append_output, "").hide();  // ckpt-run --image and --continue
  line.flag("--ignore-processor", r.ignore_processor,
            "restore on a processor that lacks instructions which the program may use");
  Option lazy = line.flag("--lazy", r.lazy, "let the program go on before its memory is loaded");
  line.flag("--verify-first", r.verify_first,
            "with --lazy: check all bytes of the image before anything is started")
      .needs(lazy);
  line.option("--json-report=FILE", r.json_report,
              "write what was restored, and how long it took, to this file");
  Option member = add_job_options(line, o.job);
  line.option("--checkpoint=N", o.checkpoint, "with --job: which checkpoint of the job")
      .range(1, 1000000)
      .needs(member)
      .default_is("the newest");
  line.option("--wait=TIME", o.wait,
              "with --job: give up if the other programs are not restored within 90s, 10m, …")
      .needs(member)
      .default_is("wait for ever");
  add_batch_options(line, o.batch);
  add_periodic_options(line, r.periodic);
  add_migration_options(line, o.migration);
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
  line.version_also(criu_found);
  return run_tool_with_json(line, argc, argv, kFailed, o.dry_run.json,
                            [&] { return run_with_report(o); });
}
