// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump: writes an image of a program that runs under ckpt-run or ckpt-restore.
#include <unistd.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "storage/io/key_file.h"
#include "tools/dump/dump.h"
#include "tools/dump/progress.h"
#include "tools/dump/suspend.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

nlohmann::json as_json(const DumpReport &r) {
  double ratio = r.stats.stored_bytes ? static_cast<double>(r.stats.raw_bytes) /
                                            static_cast<double>(r.stats.stored_bytes)
                                      : 0;
  return {{"image", r.image},
          {"pid", r.pid},
          {"processes", r.processes},
          {"bytes", r.stats.raw_bytes},
          {"stored_bytes", r.stats.stored_bytes},
          {"ratio", ratio},
          {"parent_bytes", r.stats.parent_bytes},
          {"unchanged_bytes", r.unchanged_bytes},
          {"pause_seconds", r.pause_seconds},
          {"durable_seconds", r.durable_seconds},
          {"remarks", r.remarks},
          {"phases", r.phases}};
}

// Standard output may be where the image went.
FILE *report_file(const std::string &image) {
  return image == storage::kPipeImage ? stderr : stdout;
}

void print_json(const nlohmann::json &j, const std::string &image) {
  fmt::print(report_file(image), "{}\n",
             j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_report(const DumpReport &r, bool left_running) {
  constexpr double kMiB = 1 << 20;
  nlohmann::json j = as_json(r);
  FILE *out = report_file(r.image);
  fmt::print(out, "image    {}\n", r.image);
  fmt::print(out, "program  {} process{}, {}\n", r.processes, r.processes == 1 ? "" : "es",
             left_running ? "runs on" : "stopped; restart it with ckpt-restore");
  fmt::print(out, "size     {:.1f} MiB, stored in {:.1f} MiB (ratio {:.1f})\n",
             static_cast<double>(r.stats.raw_bytes) / kMiB,
             static_cast<double>(r.stats.stored_bytes) / kMiB, j["ratio"].get<double>());
  if (r.stats.parent_chunks)
    fmt::print(out, "parents  {:.1f} MiB of what is stored there are used again\n",
               static_cast<double>(r.stats.parent_bytes) / kMiB);
  if (r.unchanged_bytes)
    fmt::print(out, "devices  {:.1f} MiB are as they were in the parent and were not read\n",
               static_cast<double>(r.unchanged_bytes) / kMiB);
  for (const std::string &remark : r.remarks) fmt::print(out, "remark   {}\n", remark);
  fmt::print(out, "pause    {:.3f} s\ndurable  {:.3f} s\n", r.pause_seconds, r.durable_seconds);
}

int run(const DumpOptions &options, bool json) {
  Cancel cancel;
  Dump dump(options, cancel);
  Result<DumpReport> report = with_progress(dump, json);
  if (!report) {
    if (json)
      print_json({{"error", {{"what", report.error().what}, {"hint", report.error().hint}}}},
                 options.image);
    log::error(report.error());
    return cancel.signal() ? 128 + cancel.signal() : kFailed;
  }
  if (json)
    print_json(as_json(*report), options.image);
  else
    print_report(*report, options.leave_running);
  return 0;
}

int run_suspend(const SuspendOptions &options, bool json) {
  Cancel cancel;
  Result<SuspendReport> r = suspend(options, cancel);
  if (!r) {
    if (json) print_json({{"error", {{"what", r.error().what}, {"hint", r.error().hint}}}}, "");
    log::error(r.error());
    return cancel.signal() ? 128 + cancel.signal() : kFailed;
  }
  if (json)
    print_json({{"pid", r->pid}, {"device_bytes", r->device_bytes}, {"seconds", r->seconds}}, "");
  else
    fmt::print(
        "program  {}, suspended; it goes on with ckpt-restore --resume {}\n"
        "devices  given up, {:.1f} MiB are kept in {}\ntime     {:.3f} s\n",
        r->pid, r->pid, static_cast<double>(r->device_bytes) / (1 << 20),
        options.folder.empty() ? "host memory" : options.folder, r->seconds);
  return 0;
}

// What CLI11 cannot check. True: all is well.
bool check(DumpOptions &o, const std::string &key_file) {
  Result<> fits;
  if (o.image == storage::kPipeImage && ::isatty(STDOUT_FILENO))
    fits = fail_with_hint("-o - writes the image to standard output, which is a terminal",
                          "redirect it: ckpt-dump -o - PID | …");
  if (o.image == storage::kPipeImage && (!o.parent.empty() || o.keep || o.overwrite))
    fits = fail_with_hint("-o - goes with neither --parent nor --keep nor --overwrite",
                          "a pipe's reader gets one whole image");
  if (!key_file.empty()) {
    Result<storage::Key> key = storage::read_key(key_file);
    if (key)
      o.key = *key;
    else
      fits = Failure(key.error());
  }
  if (!fits) log::error(fits.error());
  return fits.has_value();
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckpt-dump");
  DumpOptions o;
  bool json = false, verbose = false, suspend_it = false;
  std::string key_file, suspended_to;
  CLI::App app{
      "Writes an image of a running program (started by ckpt-run or ckpt-restore) and stops it.\n"
      "Returns 0, or 1 when there is no image: then the program runs on."};
  app.add_option("pid", o.pid, "any process of the program, or its ckpt-run")->required();
  app.add_option("-o,--output", o.image,
                 "the image's folder (default: ckpt-COMMAND-PID.img); -: to standard output");
  app.add_flag("--leave-running", o.leave_running, "the program runs on");
  app.add_flag("--overwrite", o.overwrite, "replace an existing image");
  app.add_option("--parent", o.parent,
                 "an earlier image beside the new one: what it holds is not stored again");
  app.add_option("--keep", o.keep, "afterwards keep the N newest images of this chain")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--encrypt", key_file, "encrypt the image with the key in this file");
  app.add_option("--memory", o.memory_mib,
                 "MiB of the program's memory that may wait in ours for the disk")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--timeout", o.timeout_seconds, "seconds to wait for running kernels (default 60)")
      ->check(CLI::Range(1, 86400));
  CLI::Option *to_suspend = app.add_flag(
      "--suspend", suspend_it, "write no image: the program gives its devices up and waits");
  app.add_option("--to", suspended_to,
                 "with --suspend: the folder for what was in device memory (default: host memory)")
      ->needs(to_suspend);
  app.add_flag("--json", json, "report as one JSON object on standard output");
  app.add_flag("--verbose", verbose, "say every step");
  app.add_flag("--word-when-durable", o.word_when_durable)->group("");
  app.set_version_flag("--version", CKPT_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  if (verbose) log::set_level(log::Level::Info);
  if (suspend_it &&
      (!o.image.empty() || o.leave_running || !o.parent.empty() || !key_file.empty())) {
    log::error({"--suspend writes no image",
                "leave out --output, --leave-running, --parent and --encrypt"});
    return kUsage;
  }
  if (suspend_it) return run_suspend({o.pid, suspended_to, o.timeout_seconds}, json);
  if (!check(o, key_file)) return kUsage;
  return run(o, json);
}
