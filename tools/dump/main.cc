// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump: writes an image of a program that runs under ckpt-run or ckpt-restore.
#include <iostream>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/log.h"
#include "tools/dump/dump.h"
#include "tools/dump/progress.h"

namespace ckpt {
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
          {"pause_seconds", r.pause_seconds},
          {"durable_seconds", r.durable_seconds},
          {"phases", r.phases}};
}

void print_report(const DumpReport &r, bool left_running) {
  constexpr double kMiB = 1 << 20;
  nlohmann::json j = as_json(r);
  fmt::print("image    {}\n", r.image);
  fmt::print("program  {} process{}, {}\n", r.processes, r.processes == 1 ? "" : "es",
             left_running ? "runs on" : "stopped; restart it with ckpt-restore");
  fmt::print("size     {:.1f} MiB, stored in {:.1f} MiB (ratio {:.1f})\n",
             static_cast<double>(r.stats.raw_bytes) / kMiB,
             static_cast<double>(r.stats.stored_bytes) / kMiB, j["ratio"].get<double>());
  fmt::print("pause    {:.3f} s\ndurable  {:.3f} s\n", r.pause_seconds, r.durable_seconds);
}

int run(const DumpOptions &options, bool json) {
  Cancel cancel;
  Dump dump(options, cancel);
  Result<DumpReport> report = with_progress(dump, json);
  if (!report) {
    if (json)
      std::cout << nlohmann::json{{"error",
                                   {{"what", report.error().what}, {"hint", report.error().hint}}}}
                       .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                << "\n";
    log::error(report.error());
    return cancel.signal() ? 128 + cancel.signal() : kFailed;
  }
  if (json)
    std::cout << as_json(*report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  else
    print_report(*report, options.leave_running);
  return 0;
}

}  // namespace
}  // namespace ckpt

int main(int argc, char **argv) {
  using namespace ckpt;
  log::set_name("ckpt-dump");
  DumpOptions o;
  bool json = false, verbose = false;
  CLI::App app{
      "Writes an image of a running program (started by ckpt-run or ckpt-restore) and stops it.\n"
      "Returns 0, or 1 when there is no image: then the program runs on."};
  app.add_option("pid", o.pid, "any process of the program, or its ckpt-run")->required();
  app.add_option("-o,--output", o.image, "the image's folder (default: ckpt-COMMAND-PID.img)");
  app.add_flag("--leave-running", o.leave_running, "the program runs on");
  app.add_flag("--overwrite", o.overwrite, "replace an existing image");
  app.add_option("--timeout", o.timeout_seconds, "seconds to wait for running kernels (default 60)")
      ->check(CLI::Range(1, 86400));
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
  return run(o, json);
}
