// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump: writes an image of a program that runs under ckpt-run or ckpt-restore.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "helper/serve.h"
#include "storage/io/key_file.h"
#include "tools/agent_link/parent_reader.h"
#include "tools/command_line.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/dump/dry_run.h"
#include "tools/dump/dump.h"
#include "tools/dump/dump_all.h"
#include "tools/dump/dump_report.h"
#include "tools/dump/job_checkpoint.h"
#include "tools/dump/job_member.h"
#include "tools/dump/progress.h"
#include "tools/dump/suspend.h"
#include "tools/error_json.h"
#include "tools/history/history.h"
#include "tools/json_text.h"
#include "tools/session/isolation.h"
#include "tools/session/job_member.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kDevicesLost = 3;
constexpr int kMemberLost = 3;  // the job's checkpoint is complete, too

struct Options {
  DumpOptions dump;
  SuspendOptions suspend;
  u64 prepare_mib = protocol::kAheadBytes >> 20;
  std::string depth;  // of a suspend; "": none
  bool suspends() const { return !depth.empty(); }
  bool check = false, json = false, quiet = false, verbose = false;
  bool with_manifest = false;
  std::optional<int> hand_over;  // a descriptor
  std::string key_file;
  bool shared_key = false;
  std::optional<int> pid;
  bool all = false;
  std::string user;
  std::optional<int> user_time;  // seconds
  JobConnectionOptions job;
};

void print_json(const nlohmann::json &j, const std::string &image) {
  print_to(report_file(image), "{}\n", json_text(j));
}

// Reports the failure of a dump or a suspend, and returns the exit code.
int fail_run(const Error &error, const Cancel &cancel, const Options &o, int code = kFailed) {
  if (cancel.signal()) code = 128 + cancel.signal();
  if (o.json) print_json(error_report(error, code), o.dump.image);
  return fail_with_code(code, error);
}

std::string full_path(const std::string &image) {
  if (image == storage::kPipeImage) return image;
  return std::filesystem::absolute(image).lexically_normal();
}

// A failure has the PID only: the program may be another user's.
void note(const Result<DumpReport> &r, const Options &o) {
  nlohmann::json event{{"event", "dump"}, {"pid", *o.pid}, {"result", r ? "ok" : "failed"}};
  if (!r) event["why"] = r.error().what.substr(0, kMaxRemarkBytes);
  if (r)
    event.update({{"program", r->program},
                  {"image", full_path(r->image)},
                  {"devices", r->apis},
                  {"bytes", r->stats.raw_bytes},
                  {"stored_bytes", r->stats.stored_bytes},
                  {"device_bytes", r->device_bytes},
                  {"left_running", o.dump.leave_running},
                  {"pause_seconds", r->pause_seconds},
                  {"waited_seconds", r->quiesce_seconds},
                  {"seconds", r->seconds},
                  {"phases", phase_seconds(r->phases)},
                  {"starts", phase_starts(r->phases)}});
  HistoryFile().append(std::move(event));
}

int run_dump(Options &o) {
  Cancel cancel;
  std::optional<HandOver> hand_over;
  if (o.hand_over) o.dump.follower = &hand_over.emplace(*o.hand_over, cancel);
  if (!o.dump.leave_running) o.dump.hand_over = o.dump.follower;
  Dump dump(o.dump, cancel);
  Result<DumpReport> report = with_progress(dump, o.json || o.quiet);
  note(report, o);
  if (!report)
    return fail_run(report.error(), cancel, o, dump.devices_lost() ? kDevicesLost : kFailed);
  if (o.json)
    print_json(as_json(*report), o.dump.image);
  else if (!o.quiet)
    print_report(*report, o.dump.leave_running);
  return 0;
}

int run_check(Options &o) {
  Cancel cancel;
  o.dump.for_another_machine = o.with_manifest;
  Result<DryRun> r = dry_run(o.dump, cancel);
  if (!r) return fail_run(r.error(), cancel, o);
  nlohmann::json report = as_json(*r);
  if (o.with_manifest) report["manifest"] = r->manifest;
  if (o.json)
    print("{}\n", json_text(report));
  else if (!o.quiet)
    print_dry_run(*r);
  return r->reasons.empty() ? 0 : fail_with_code(kFailed, refusal_of(*r));
}

// For the job's coordinator, which gets the report.
int run_job_member(Options &o) {
  Cancel cancel;
  Result<std::unique_ptr<JobMemberDump>> job = accept_job(o.job, cancel);
  if (!job) return fail_with_code(kNotOfTheJob, job.error());
  (*job)->configure(o.dump);
  Dump dump(o.dump, cancel);
  Result<DumpReport> report = dump.run();
  (*job)->report(report);
  note(report, o);
  if (report) return 0;
  return fail_run(report.error(), cancel, o, dump.devices_lost() ? kDevicesLost : kFailed);
}

void print_job_report(const JobReport &r, const Options &o) {
  if (o.json)
    return print_json({{"checkpoint", r.checkpoint},
                       {"folder", r.folder},
                       {"members", r.members},
                       {"seconds", r.seconds},
                       {"phases", r.phases}},
                      "");
  if (o.quiet) return;
  print("checkpoint  {}\nprograms    {}, {}\ntime        {:.3f} s\n", printable(r.folder),
        r.members.size(),
        o.dump.leave_running ? "still running" : "stopped; restart them with ckpt-restore --job",
        r.seconds);
}

int run_job(const Options &o) {
  Cancel cancel;
  JobCheckpoint checkpoint({.folder = o.job.folder,
                            .leave_running = o.dump.leave_running,
                            .keep = o.dump.keep,
                            .timeout_seconds = static_cast<unsigned>(o.dump.timeout_seconds)},
                           cancel);
  Result<JobReport> r = checkpoint.run();
  int code = checkpoint.complete() ? kMemberLost : checkpoint.busy() ? kJobIsBusy : kFailed;
  if (!r) return fail_run(r.error(), cancel, o, code);
  print_job_report(*r, o);
  return 0;
}

int run_suspend(const Options &o) {
  Cancel cancel;
  Result<SuspendReport> r = suspend_and_note(o.suspend, cancel);
  if (!r) return fail_run(r.error(), cancel, o);
  if (o.json)
    print_json(as_json(*r), "");
  else if (!o.quiet)
    print_text(text_of(*r, o.suspend.folder));
  return 0;
}

Result<int> run_all(const Options &o) {
  const DumpOptions &d = o.dump;
  DumpAllOptions all{.folder = d.image,
                     .user = o.user,
                     .remove_older = d.overwrite,
                     .json = o.json,
                     .quiet = o.quiet};
  if (o.user_time) all.user_time = std::chrono::seconds(*o.user_time);
  // ckpt-restore --all could not restore it, and a shutdown would end it.
  all.options = {"--refuse-as-root", "--timeout", std::to_string(d.timeout_seconds)};
  if (d.leave_running) all.options.push_back("--leave-running");
  if (d.stop_the_world) all.options.push_back("--stop-the-world");
  if (d.memory_mib)
    all.options.insert(all.options.end(), {"--memory", std::to_string(*d.memory_mib)});
  if (d.with_files)
    all.options.insert(all.options.end(),
                       {"--with-files", "--with-files-up-to", std::to_string(d.carried_mib)});
  if (!o.key_file.empty()) all.options.insert(all.options.end(), {"--key-file", o.key_file});
  if (o.shared_key) all.options.push_back("--shared-key");
  Cancel cancel;
  return dump_all(all, cancel);
}

Result<std::optional<storage::Key>> key_of(const Options &o) {
  if (o.key_file.empty()) return std::nullopt;
  return storage::read_key(o.key_file,
                           o.shared_key ? storage::KeyAccess::Shared : storage::KeyAccess::Private);
}

Result<> check_all(const Options &o) {
  const DumpOptions &d = o.dump;
  if (o.pid || o.check || o.suspends() || !d.parent.empty() || d.keep)
    return fail_with_hint(
        "--all cannot be combined with a PID, --check, --suspend, --parent or --keep",
        "leave these out");
  if (d.image.empty() || d.in_pipe())
    return fail_with_hint("--all needs a folder for the images", "name it with --output");
  // Each dump reads the key itself. It is read here so that an error is reported only once.
  return key_of(o).transform([](auto &&) {});
}

Result<> check_job(const Options &o) {
  const DumpOptions &d = o.dump;
  if (o.job.connection) return {};  // by a keeper
  if (o.pid || o.all || o.check || o.suspends() || !d.image.empty() || !d.parent.empty() ||
      d.overwrite || d.with_files || !o.key_file.empty())
    return fail_with_hint(
        "--job cannot be combined with a PID, --all, --check, --suspend, --output, --parent, "
        "--overwrite, --with-files or --key-file",
        "leave these out: the job's folder names the programs and receives their images. Images of "
        "ckpt-run --job --with-files carry files");
  return {};
}

// What the command line alone cannot check.
Result<> check(Options &o) {
  DumpOptions &d = o.dump;
  if (!o.job.folder.empty()) return check_job(o);
  if (o.all) return check_all(o);
  if (!o.pid)
    return fail_with_hint(
        "PID is missing",
        "name a process of the program (ckpt-ps lists the programs), or use --all");
  if (o.suspends() &&
      (!d.image.empty() || d.leave_running || !d.parent.empty() || !o.key_file.empty()))
    return fail_with_hint("--suspend writes no image",
                          "leave out --output, --leave-running, --parent and --key-file");
  if (d.with_files && o.suspends())
    return fail_with_hint("--with-files is for images, and --suspend writes none", "leave it out");
  if (o.check && o.suspends())
    return fail_with_hint("--check cannot be combined with --suspend",
                          "leave out --suspend: --check says whether a dump is possible");
  if (d.as_template && (o.suspends() || !d.parent.empty()))
    return fail_with_hint("--template cannot be combined with --suspend or --parent",
                          "leave these out");
  if (d.in_pipe() && ::isatty(STDOUT_FILENO))
    return fail_with_hint("-o - writes the image to standard output, which is a terminal",
                          "redirect it: ckpt-dump -o - PID | …");
  if (d.in_pipe() && (!d.parent.empty() || d.keep || d.overwrite))
    return fail_with_hint("-o - cannot be combined with --parent, --keep or --overwrite",
                          "leave these out: the reader of a pipe gets one whole image");
  CKPT_TRY(d.key, key_of(o));
  return {};
}

int wrong_usage(const Error &error, const Options &o) {
  if (o.json) print_json(error_report(error, kWrongUsage, kUsage), o.dump.image);
  return fail_with_code(kWrongUsage, error);
}

Result<int> run(Options &o) {
  if (o.verbose) log::set_level(log::Level::Info);
  if (Result<> sound = check(o); !sound) return wrong_usage(sound.error(), o);
  if (o.all) return run_all(o);
  if (!o.job.folder.empty() && !o.job.connection) return run_job(o);
  CKPT_CHECK(enter_isolation_of(*o.pid));
  o.suspend.pid = o.dump.pid = *o.pid;
  o.suspend.timeout_seconds = o.dump.timeout_seconds;
  o.suspend.rounds_ahead = o.dump.rounds_ahead;
  o.suspend.prepare_bytes = o.dump.prepare_bytes = o.prepare_mib << 20;
  if (o.job.connection) return run_job_member(o);
  if (o.depth == name_of(protocol::Depth::Memory)) o.suspend.depth = protocol::Depth::Memory;
  if (o.check) return run_check(o);
  return o.suspends() ? run_suspend(o) : run_dump(o);
}

void add_options(CommandLine &line, Options &o) {
  DumpOptions &d = o.dump;
  line.option("PID", o.pid, "any process of the program, or its ckpt-run or ckpt-restore");
  Option all = line.flag("--all", o.all,
                         "dump all programs of this user, or of all users if root runs this; "
                         "--output names the folder for their images");
  line.option("--user=NAME", o.user, "with --all: only the programs of this user").needs(all);
  line.option("--user-time=SECONDS", o.user_time,
              "with --all: how long the programs of one user may take together; what is not dumped "
              "by then keeps running")
      .needs(all)
      .default_is("no limit");
  line.option("--job=FOLDER", o.job.folder,
              "checkpoint all programs of this job as one (ckpt-run --job)");
  line.option("--member=NAME", o.job.member, "").hide();
  line.option("--connection=FD", o.job.connection, "").hide();
  line.option("--greeted=FD", o.job.greeted, "").hide();
  line.option("-o,--output=IMAGE", d.image, "the image's folder; -: standard output")
      .default_is("ckpt-COMMAND-PID.img");
  Option leave_running = line.flag("--leave-running", d.leave_running, "let the program continue");
  line.flag("--stop-the-world", d.stop_the_world,
            "with --leave-running: the program waits until all its device memory is copied")
      .needs(leave_running);
  line.flag("--overwrite", d.overwrite, "replace an existing image");
  Option as_template =
      line.flag("--template", d.as_template,
                "an image from which copies can run at the same time (ckpt-start); refuse what "
                "copies cannot have");
  line.flag("--tcp-close", d.tcp_close,
            "with --template: the copies find the program's TCP connections closed")
      .needs(as_template);
  Option with_files =
      line.flag("--with-files", d.with_files,
                "carry in the image the libraries and other files that the program only reads, for "
                "a machine where they are missing or differ");
  line.option("--with-files-up-to=MIB", d.carried_mib,
              "with --with-files: the largest file without code, in MiB")
      .needs(with_files)
      .range(0, 1 << 24);
  line.option("--parent=IMAGE", d.parent,
              "an earlier image in the same folder; what it holds is not stored again");
  line.option(
          "--keep=N", d.keep,
          "afterwards remove all but the N newest images of this chain, or checkpoints of this job")
      .range(1, 1000000);
  line.option("--key-file=FILE", o.key_file, "encrypt the image with the key in this file");
  line.flag("--shared-key", o.shared_key, "accept a key file that other users can read");
  line.option("--memory=MIB", d.memory_mib,
              "MiB of the program's data that may wait in memory for the disk")
      .range(1, 1 << 24);
  line.option("--prepare=MIB", o.prepare_mib,
              "MiB of host memory to take for device memory before the program is paused")
      .range(0, 1 << 24);
  line.option("--copy-ahead=ROUNDS", d.rounds_ahead,
              "rounds in which contents of remote CUDA devices are copied while the program runs")
      .range(0, 100);
  line.option("--timeout=SECONDS", d.timeout_seconds, "seconds to wait for running kernels")
      .range(1, 86400);
  line.flag("--check", o.check,
            "write no image: report every reason why the dump would be refused, and what a restore "
            "would need");
  Option suspend =
      line.flag_of("--suspend", o.depth, {"full", "memory"},
                   "write no image: make the program release its devices, or only their memory, "
                   "until it is resumed");
  line.option("--to=FOLDER", o.suspend.folder,
              "with --suspend: the folder for the contents of device memory")
      .needs(suspend)
      .default_is("host memory");
  line.flag("--json", o.json, "report as one JSON object on standard output");
  line.flag("-q,--quiet", o.quiet, "print neither progress nor the report");
  line.flag("--verbose", o.verbose, "log every step");
  line.flag("--outcome-when-durable", d.outcome_when_durable, "").hide();
  line.flag("--refuse-as-root", d.refuse_as_root, "").hide();
  line.option("--hand-over=FD", o.hand_over, "").hide();
  line.flag("--passing", d.passing, "").hide();
  line.flag("--manifest", o.with_manifest, "").hide();
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  if (is_helper(argc, argv)) return ckpt::helper::serve_starter(argv + 2);
  if (argc == 5 && std::string_view(argv[1]) == "--parent-reader")
    return parent_reader_main(argv + 2);
  Options o;
  CommandLine line(
      "ckpt-dump",
      "Writes an image of a running program (started by ckpt-run or ckpt-restore) and stops it.\n"
      "Exit code 0: the image is complete; 1: there is no image, and the program keeps running; "
      "3: the image is complete, but the program has lost its devices, or a program of the job was "
      "not reached any more; 4: another checkpoint of the job is under way; 125: the arguments are "
      "wrong.");
  add_options(line, o);
  line.version_also(criu_found);
  return run_tool(line, argc, argv, kFailed, [&] { return run(o); });
}
