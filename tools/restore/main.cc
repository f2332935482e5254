// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore: starts a program again from its image, and is its session's keeper then.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "storage/io/key_file.h"
#include "storage/ops/receive.h"
#include "tools/restore/checks.h"
#include "tools/restore/daemon.h"
#include "tools/restore/driver.h"
#include "tools/restore/resume.h"
#include "tools/session/farewell.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::string joined(const Reasons &reasons) {
  std::string all;
  for (const std::string &r : reasons) all += "\n  - " + r;
  return all;
}

// An image and all that has to fit to it.
struct Checked {
  std::unique_ptr<storage::ImageReader> image;
  ImageManifest manifest;
  DeviceChoice devices;
  DeviceMaps maps;
  Criu criu;
};

// Where there is room for an image; it has no name there, and goes with us.
std::string spool_folder() {
  const char *folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/var/tmp";
}

// The program does not inherit what is left of the pipe.
void let_go_of_pipe() {
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
}

Result<std::unique_ptr<storage::ImageReader>> open_image(const RestoreOptions &o) {
  std::optional<storage::Key> key;
  if (!o.key_file.empty()) {
    CKPT_TRY(key, storage::read_key(o.key_file));
  }
  storage::ReadOptions options{.key = key ? &*key : nullptr};
  if (o.image != storage::kPipeImage) return storage::ImageReader::open(o.image, options);
  if (::isatty(STDIN_FILENO))
    return fail_with_hint("- reads an image from standard input, which is a terminal",
                          "name the image's folder, or pipe `ckpt-dump -o -` into this");
  CKPT_TRY(auto image, storage::spool_image(STDIN_FILENO, spool_folder(), options));
  let_go_of_pipe();
  return image;
}

Result<Checked> check(const RestoreOptions &o) {
  Checked c;
  CKPT_TRY(c.image, open_image(o));
  CKPT_TRY(c.manifest, ImageManifest::parse(c.image->manifest()));
  CKPT_TRY(c.devices, choose_devices(o.device));
  Reasons reasons;
  if (::geteuid() != 0) reasons.push_back("CRIU needs root: run ckpt-restore as root");
  if (Result<Criu> criu = find_criu())
    c.criu = *criu;
  else
    reasons.push_back(criu.error().text());
  if (Result<> sound = c.image->verify(storage::ImageReader::Depth::Stored).result(); !sound)
    reasons.push_back(sound.error().text());
  check_files(c.manifest, o.truncate_files, reasons);
  check_mapped_files(c.manifest, reasons);
  c.maps = check_device_needs(c.manifest, c.devices, o.ignore_limits, reasons);
  if (reasons.empty()) return c;
  std::string name = o.image == storage::kPipeImage ? "the image in the pipe" : o.image;
  return fail_with_hint(fmt::format("{} cannot be restored here:{}", name, joined(reasons)),
                        "nothing was started");
}

int end(Keeper::Outcome outcome) {
  if (outcome.error) return log::error(*outcome.error), kFailed;
  if (!outcome.image) end_like(outcome.wait_status);
  say_checkpointed("ckpt-restore", *outcome.image);
  return kCheckpointedExitCode;
}

int run(RestoreOptions o) {
  // The image and the devices, before anything is started.
  Phases phases;
  phases.begin("check");
  Result<Checked> c = check(o);
  if (!c) return log::error(c.error()), kFailed;
  if (o.output_file.empty())
    o.output_file = fmt::format("{}/ckpt-{}.out", std::filesystem::current_path().string(),
                                c->manifest.root_pid);
  if (o.truncate_files)
    if (Result<> r = truncate_files(c->manifest); !r) return log::error(r.error()), kFailed;
  // Detached: the rest is another process's, and we say how it began.
  Daemon daemon;
  if (o.detach)
    if (std::optional<int> code = daemon.detach()) return *code;
  // The new session.
  phases.begin("session");
  Result<std::unique_ptr<Keeper>> keeper = Keeper::create({c->devices, o.portable});
  if (!keeper) return log::error(keeper.error()), kFailed;
  Result<std::unique_ptr<Periodic>> periodic = Periodic::start(**keeper, o.periodic);
  if (!periodic) return log::error(periodic.error()), kFailed;
  // The program comes to life in a thread, while we serve it.
  Keeper::Outcome outcome;
  {
    RestoreDriver::Plan plan{c->manifest, c->maps, c->criu};
    RestoreDriver driver(**keeper, o, *c->image, plan, phases, [&](pid_t pid) {
      daemon.report(pid);
      let_go_of_streams();
    });
    outcome = (*keeper)->run();
  }
  keeper->reset();
  return end(std::move(outcome));
}

int run_resume(const ResumeOptions &o) {
  Result<ResumeReport> r = resume(o);
  if (!r) return log::error(r.error()), kFailed;
  fmt::print("program  {}, running again\ntime     {:.3f} s\n", r->pid, r->seconds);
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckpt-restore");
  if (argc == 3 && std::string_view(argv[1]) == "--stem") return stem_main(argv[2]);
  RestoreOptions o;
  CLI::App app{
      "Starts a program again from an image of ckpt-dump, as often as you like.\n"
      "Returns the program's exit code, or dies by the signal that killed it; 85 when it was "
      "checkpointed again and stopped, 1 when it could not be restored."};
  pid_t suspended = 0;
  app.add_option("image", o.image, "the image's folder; -: from standard input");
  app.add_option(
      "--resume", suspended,
      "in the place of an image: a process of a program that ckpt-dump --suspend stopped");
  app.add_option("--key-file", o.key_file, "the key of an encrypted image");
  app.add_option("--device", o.device,
                 "devices for the program: index, cuda:N, ocl:N, ocl:NAME or UUID; a comma list");
  app.add_flag("--portable", o.portable, "advertise only what every device offers");
  app.add_flag("--ignore-limits", o.ignore_limits,
               "let limits that the program has only read of its device not count");
  app.add_flag("--detach", o.detach, "in the background; prints the program's PID once it runs");
  app.add_option("--output", o.output_file,
                 "with --detach: where its terminal or pipe output goes (default ckpt-PID.out)");
  app.add_flag("--truncate-files", o.truncate_files,
               "cut files that grew since back to their recorded size");
  app.add_option("--json-report", o.json_report,
                 "write what was restored, and how fast, to this file");
  add_periodic_options(app, o.periodic);
  app.set_version_flag("--version", CKPT_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  if (suspended && !o.image.empty()) {
    log::error({"--resume takes no image", "leave one of the two out"});
    return kUsage;
  }
  if (suspended) return run_resume({suspended, o.device, o.ignore_limits});
  if (o.image.empty()) {
    log::error("image is required: the image's folder, or -");
    return kUsage;
  }
  for (std::string *path : {&o.output_file, &o.json_report})
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  return run(std::move(o));
}
