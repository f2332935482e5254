// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/source_dump.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr const char *kDumpTool = "ckpt-dump";

}  // namespace

std::vector<std::string> SourceDumps::arguments(const std::string &image,
                                                const std::string &parent) const {
  std::vector<std::string> all{std::to_string(pid_), "--json",
                               "--output",           image,
                               "--timeout",          std::to_string(options_.timeout_seconds)};
  if (!parent.empty()) all.insert(all.end(), {"--parent", parent});
  if (!options_.key_file.empty()) all.insert(all.end(), {"--key-file", options_.key_file});
  if (options_.shared_key) all.emplace_back("--shared-key");
  return all;
}

Result<json> SourceDumps::finish(ToolRun &run) {
  CKPT_CHECK(run.wait(meanwhile_));
  if (!run.succeeded()) return Failure(run.error());
  return run.report();
}

// It reports what it found even if that forbids a dump.
Result<json> SourceDumps::check() {
  CKPT_TRY(ToolRun run,
           ToolRun::start(kDumpTool, {std::to_string(pid_), "--check", "--json", "--manifest"}));
  CKPT_CHECK(run.wait(meanwhile_));
  json report = run.report();
  if (run.succeeded() && report.contains("manifest")) return report;
  return Failure(run.error());
}

Result<json> SourceDumps::running(const std::string &image, const std::string &parent) {
  std::vector<std::string> all = arguments(image, parent);
  all.insert(all.end(), {"--leave-running", "--passing"});
  CKPT_TRY(ToolRun run, ToolRun::start(kDumpTool, std::move(all)));
  return finish(run);
}

Result<ToolRun> SourceDumps::stop(const std::string &image, const std::string &parent) {
  CKPT_TRY(ToolRun run, ToolRun::start(kDumpTool, arguments(image, parent), "--hand-over"));
  CKPT_CHECK(run.hear('D', meanwhile_));
  CKPT_TRY(paused_, run.hear_number());
  return run;
}

// Not to be interrupted: either the program has ended, or it goes on here.
Result<> SourceDumps::end(ToolRun &stopped) {
  CKPT_CHECK(stopped.say('E'));
  return stopped.hear('K', [] { return Result<>(); });
}

}  // namespace ckpt::tools
