// SPDX-License-Identifier: Apache-2.0
//
// ckpt-run: runs a program so that it can be checkpointed. To every other process ckpt-run looks
// like the program: the same terminal, process group and streams, and the same end.
#include <sched.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/program.h"
#include "fatbin/static_runtime.h"
#include "tools/command_line.h"
#include "tools/device/apis.h"
#include "tools/device/environment.h"
#include "tools/device/remote.h"
#include "tools/error_json.h"
#include "tools/job/ends.h"
#include "tools/json_text.h"
#include "tools/proc/command.h"
#include "tools/proc/process.h"
#include "tools/run/audit.h"
#include "tools/run/guest.h"
#include "tools/run/managed.h"
#include "tools/run/same_program.h"
#include "tools/session/batch.h"
#include "tools/session/batch_names.h"
#include "tools/session/early_warnings.h"
#include "tools/session/isolation.h"
#include "tools/session/job_member.h"
#include "tools/session/job_signals.h"
#include "tools/session/keeper.h"
#include "tools/session/namespace_root.h"
#include "tools/session/periodic.h"
#include "tools/session/standard_streams.h"

namespace ckpt::tools {
namespace {

// Exit codes as in env(1), nohup(1) and timeout(1).
constexpr int kOwnFailure = 125;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// The defaults of --image and --every, as slurm/spank_ckpt.c sets them. They are for this ckpt-run,
// and not for one that the program starts: two programs do not share a series.
constexpr const char *kImageVariable = "CKPT_IMAGE";
constexpr const char *kEveryVariable = "CKPT_EVERY";

// A batch system starts all programs of a job at about the same time. If one is missing, the others
// are not to occupy their nodes until the time limit.
constexpr const char *kWaitForOthers = "5m";

// What --managed-memory is without the option.
constexpr const char *kManagedByDriver = "driver";

struct Options {
  std::string device;
  bool portable = false;
  std::string managed_memory = kManagedByDriver;
  bool managed_on_host = false;  // --managed-memory=host by another name
  bool device_owner = false;
  bool share_ipc = false;
  bool isolate = false;
  bool audit = false;
  bool list_devices = false;
  bool json = false;
  std::string json_report;  // a file; empty: none
  std::string host;         // for --list-devices
  PeriodicOptions periodic;
  std::string image;  // the folder of a series; empty: none
  BatchOptions batch;
  ManagedOptions managed;
  GuestOptions guest;
  JobOptions job;
  bool goes_on = false;  // --continue
  std::vector<std::string> program;
};

Result<> report_start(const Options &o, pid_t program) {
  if (o.json_report.empty()) return {};
  CKPT_TRY(UniqueFd out, open_output(o.json_report, O_TRUNC, 0666));
  nlohmann::json report{{"pid", program}, {"keeper", ::getpid()}};
  return write_all(out.get(), view(json_text(report) + "\n"));
}

Result<int> print_devices(const Options &o) {
  CKPT_TRY(std::vector<Device> devices,
           o.host.empty() ? list_devices() : list_remote_devices(o.host));
  print_text(o.json ? json_text(device_json(devices), 2) + "\n" : device_table(devices));
  if (!devices.empty()) return 0;
  std::fflush(stdout);
  return Failure(no_devices());
}

// CRIU saves System V memory, semaphores and message queues with their IPC namespace, so the
// program gets one of its own, as in a container. Without the right to make one nothing is lost:
// CRIU needs more than that right.
void in_child() {
  if (session_is_outside()) ::setsid();
  ::unshare(CLONE_NEWIPC);
  KeeperSignals::restore_dispositions();
}

void in_child_that_shares_ipc() {
  if (session_is_outside()) ::setsid();
  KeeperSignals::restore_dispositions();
}

Result<pid_t> start_program(const Options &options, const ProgramEnvironment &environment,
                            const Keeper &keeper, int *error) {
  Spawn spec{
      .argv = options.program, .environment = environment.set, .without = environment.without};
  if (options.device_owner) spec.environment.emplace_back("CKPT_CUDA_DEVICE_OWNER", "1");
  if (options.managed_memory != kManagedByDriver)
    spec.environment.emplace_back("CKPT_CUDA_MANAGED_MEMORY", options.managed_memory);
  spec.environment.emplace_back(protocol::kSessionVariable, keeper.socket_path());
  spec.without.insert(spec.without.end(), {kImageVariable, kEveryVariable, kHeldSignals});
  spec.signal_mask = &keeper.signals().original_mask();
  spec.in_child = options.share_ipc ? in_child_that_shares_ipc : in_child;
  return spawn(spec, error);
}

void audit_if_wanted(const Options &o, ProgramEnvironment &environment) {
  if (environment.auditor.empty()) return;
  std::string why = o.audit ? "--audit" : why_to_audit(o.program, environment);
  if (why.empty()) return;
  log::info("the program gets an auditing library: {}", why);
  add_auditor(environment);
}

// Goes on from an image: ckpt-restore takes this process's place. `which`: the words that name it.
Failure restore_instead(const Options &o, const std::vector<std::string> &which) {
  // The batch system writes into the job's output file too, so that it may have grown. Files with
  // results may have grown because the program ran on after its last image, until its node failed:
  // it does so again.
  std::vector<std::string> words{sibling_tool("ckpt-restore"), "--append-output", "--keep",
                                 std::to_string(o.periodic.keep)};
  if (!o.batch.on_signal.empty()) words.insert(words.end(), {"--on-signal", o.batch.on_signal});
  if (!o.device.empty()) words.insert(words.end(), {"--device", o.device});
  if (!o.json_report.empty()) words.insert(words.end(), {"--json-report", o.json_report});
  if (o.portable) words.push_back("--portable");
  if (o.periodic.with_files) words.push_back("--with-files");
  if (!o.periodic.every.empty())
    words.insert(words.end(), {"--every", o.periodic.every, "--mtbf", o.periodic.mtbf});
  words.insert(words.end(), which.begin(), which.end());
  return become_program(std::move(words));
}

// Nothing: the program is to be started.
Result<std::optional<int>> continue_job(const Options &o) {
  CKPT_TRY(JobFolder folder, JobFolder::create(o.job.folder));
  CKPT_TRY(JobStart start, how_to_start(folder, o.job.member));
  std::string noted = command_file(folder, o.job.member);
  if (start == JobStart::Program) {
    CKPT_CHECK(note_command(noted, o.program));
    return std::nullopt;
  }
  if (start == JobStart::Restore) {
    std::string image = folder.image(folder.complete().front(), o.job.member);
    CKPT_CHECK(check_same_command({o.job.folder, "--job", noted, image}, o.program));
    return restore_instead(o, {"--job", without_batch_names(o.job.folder), "--member", o.job.member,
                               "--wait", kWaitForOthers});
  }
  log::info("{} had finished before the job's last checkpoint", o.job.member);
  return 0;
}

Result<int> run_program(const Options &options) {
  std::unique_ptr<BatchJob> job;
  JobSignals signals;
  if (!options.job.folder.empty()) {
    CKPT_TRY(signals, JobSignals::hold(options.batch.on_signal));
  }
  if (!options.image.empty()) {
    CKPT_TRY(job, BatchJob::open(options.image, options.batch));
    const std::string &folder = job->series().folder();
    std::vector<std::string> images = job->series().images();
    if (!images.empty()) {
      CKPT_CHECK(check_same_command({folder, "--image", folder + "/command", images.front()},
                                    options.program));
      return restore_instead(options, {folder});
    }
    CKPT_CHECK(note_command(folder + "/command", options.program));
  }
  if (options.goes_on) {
    CKPT_TRY(std::optional<int> code, continue_job(options));
    if (code) return *code;
  }
  // Before any thread: a process with several cannot change its user namespace.
  if (options.isolate) CKPT_CHECK(isolate());
  if (is_namespace_root()) ::setenv(protocol::kIsolatedVariable, "1", 1);
  // The devices that the program may use, and the environment that leads it to our drivers.
  CKPT_TRY(DeviceChoice devices, choose_devices(options.device));
  if (is_split(devices)) return Failure(not_split_at_start());
  CKPT_TRY(ProgramEnvironment environment, program_environment(devices));
  CKPT_CHECK(add_manager(options.managed, !options.device.empty(), environment));
  if (Result<> sliced = add_slices(options.guest, environment); !sliced)
    return fail_with_report(options.json_report, kWrongUsage, sliced.error());
  if (environment.software_cuda)
    if (Result<> r = fatbin::refuse_static_runtime(find_program(options.program[0])); !r)
      return fail_with_report(options.json_report, kCannotExecute, r.error());
  audit_if_wanted(options, environment);
  if (options.managed_memory == "kept" && !environment.toucher.empty())
    environment.put_in_front("LD_PRELOAD", environment.toucher);
  adopt_null_streams();
  std::unique_ptr<JobMember> member;
  if (!options.job.folder.empty()) {
    CKPT_TRY(member, JobMember::join(options.job, {}));
  }
  // The keeper opens the session before the program can ask for it.
  CKPT_TRY(std::unique_ptr<Keeper> keeper,
           Keeper::create({devices, options.portable, environment}));
  CKPT_TRY(std::unique_ptr<Periodic> periodic,
           Periodic::start(*keeper, options.periodic, job ? &job->series() : nullptr));
  if (member) CKPT_CHECK(signals.start(*keeper, options.job.folder, options.periodic.keep));
  if (job) CKPT_CHECK(job->start(*keeper, options.periodic.keep, periodic.get()));
  CKPT_TRY(std::unique_ptr<EarlyWarnings> warnings, EarlyWarnings::start(*keeper, environment));
  // The program starts.
  int why = 0;
  Result<pid_t> program = start_program(options, environment, *keeper, &why);
  if (!program)
    return fail_with_report(options.json_report, why == ENOENT ? kNotFound : kCannotExecute,
                            program.error());
  if (Result<> reported = report_start(options, *program); !reported)
    log::warn("the report was not written: {}", reported.error().text());
  release_streams();
  keeper->program_started(*program, session_is_outside());
  keeper->program_ready();
  if (member) member->serve(*keeper);
  // The keeper serves the session until the program ends, and this process ends in the same way.
  Keeper::Outcome outcome = keeper->run();
  keeper.reset();
  if (member && !outcome.image) member->program_ended(outcome.wait_status);
  member.reset();
  int code = job ? job->end(outcome) : signals.exit_code(outcome);
  if (!outcome.image) end_like(outcome.wait_status);
  return report_stopped("ckpt-run", outcome, options.job.folder, code);
}

Result<> check(const Options &o) {
  if (!o.batch.on_signal.empty() && o.image.empty() && o.job.folder.empty())
    return fail_with_hint("--on-signal requires --image or --job",
                          "name the folder for the images with --image");
  if (o.managed_memory == "kept" && (o.guest.guest || !o.guest.slice.empty()))
    return fail_with_hint("--managed-memory=kept cannot be combined with --guest or --slice",
                          "leave one of them out, or put managed memory on the host with "
                          "--managed-memory=host");
  if (!o.job.folder.empty() && (!o.image.empty() || o.periodic.folder != "."))
    return fail_with_hint("--job cannot be combined with --image or --image-dir",
                          "leave these out: the job's folder receives its images");
  return {};
}

Result<> complete_job(Options &o) {
  if (o.job.folder.empty()) return {};
  CKPT_CHECK(complete(o.job));
  o.periodic.job = o.job.folder;
  if (!o.goes_on) return {};
  if (o.batch.on_signal.empty()) o.batch.on_signal = kDefaultSignals;
  if (o.job.programs == 0) o.job.programs = tasks_of_this_step();
  return {};
}

Result<int> run(Options &o) {
  if (!o.json_report.empty()) o.json_report = std::filesystem::absolute(o.json_report).string();
  Result<> sound = complete_job(o);
  if (sound) sound = check(o);
  if (!sound) return fail_with_report(o.json_report, kWrongUsage, sound.error());
  if (o.managed_on_host) o.managed_memory = "host";
  if (o.guest.guest && !o.managed.priority) o.managed.priority = kGuestPriority;
  if (o.list_devices) return print_devices(o);
  if (!o.program.empty()) return run_program(o);
  return fail_with_report(o.json_report, kWrongUsage,
                          {"no program was given",
                           "write ckpt-run PROGRAM, or "
                           "ckpt-run --help for the options"});
}

void add_options(CommandLine &line, Options &o) {
  line.option("--device=LIST", o.device,
              "devices for the program: a comma-separated list of index, cuda:N, ocl:N, ocl:NAME "
              "or UUID; remote:HOST/ocl:N and remote:HOST/cuda:N are on another node")
      .default_is("every device");
  line.flag("--portable", o.portable, "report to the program only what every device offers");
  Option managed_memory =
      line.option("--managed-memory=WAY", o.managed_memory,
                  "CUDA's managed memory is kept (by a checkpoint, and moved between host and "
                  "device by ckpt), on the host, or the driver's, which cannot be checkpointed")
          .one_of({"kept", "host", kManagedByDriver});
  line.flag("--managed-on-host", o.managed_on_host, "the same as --managed-memory=host")
      .excludes(managed_memory);
  line.flag("--device-owner", o.device_owner,
            "during a dump, let another process hold CUDA device memory and copy it meanwhile");
  line.flag("--share-ipc", o.share_ipc,
            "share System V memory, semaphores and message queues with programs outside");
  line.flag("--isolate", o.isolate,
            "as an ordinary user: namespaces of its own for the program, without a network, in "
            "which this user can checkpoint it without ckpt-helper, with its TCP connections");
  line.flag("--audit", o.audit,
            "catch CUDA's driver by whatever path the program opens it, with an auditing library");
  Option list = line.flag("--list-devices", o.list_devices, "print the devices and exit");
  line.flag("--json", o.json, "with --list-devices: print a JSON array");
  line.option("--json-report=FILE", o.json_report,
              "write the program's PID, or why it was not started, to this file");
  line.option("--host=HOST", o.host,
              "with --list-devices: the devices of another node, where ckpt-devd runs")
      .needs(list);
  line.option("--image=FOLDER", o.image,
              "the folder of a series of images: continue from the newest one, or start the "
              "program; %j in it is the batch job's number")
      .environment(kImageVariable);
  add_batch_options(line, o.batch);
  add_periodic_options(line, o.periodic).environment(kEveryVariable);
  Option job = add_job_options(line, o.job);
  line.flag("--continue", o.goes_on,
            "with --job: continue from the job's newest checkpoint, or start the program")
      .needs(job);
  line.option("--programs=N", o.job.programs,
              "with --job: make no checkpoint before N programs of the job have started")
      .range(1, 10000)
      .needs(job)
      .default_is("with --continue under srun, the number of its tasks");
  add_managed_options(line, o.managed);
  add_guest_options(line, o.guest);
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  CommandLine line(
      "ckpt-run",
      "Runs a program so that ckpt-dump can checkpoint it.\n"
      "Returns the program's exit code, or dies by the signal that killed it. Exit code 85: the "
      "program was checkpointed and stopped; 125: ckpt-run itself failed, or its arguments are "
      "wrong; 126: the program cannot be executed; 127: it was not found.");
  line.followed_by("[--] PROGRAM [ARGUMENTS…]");
  Options o;
  add_options(line, o);
  // Everything after ckpt-run's own options belongs to the program, even if it looks like an
  // option.
  int own = line.count_options(argc, argv);
  o.program.assign(argv + own, argv + argc);
  return run_tool(line, own, argv, kOwnFailure,
                  [&] { return with_report(run(o), o.json_report, kOwnFailure); });
}
