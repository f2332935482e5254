// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/source_dump.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr const char *kDumpTool = "ckpt-dump";
constexpr const char *kConnection = "--hand-over";

}  // namespace

std::vector<std::string> SourceDumps::arguments(const std::string &image,
                                                const std::string &parent) const {
  std::vector<std::string> all{std::to_string(pid_), "--json",
                               "--output",           image,
                               "--timeout",          std::to_string(options_.timeout_seconds)};
  if (!parent.empty()) all.insert(all.end(), {"--parent", parent});
  if (!options_.key_file.empty()) all.insert(all.end(), {"--key-file", options_.key_file});
  if (options_.shared_key) all.emplace_back("--shared-key");
  if (options_.with_files) all.emplace_back("--with-files");
  return all;
}

Result<json> SourceDumps::finish(ToolRun &run) {
  CKPT_CHECK(run.wait(meanwhile_));
  if (!run.succeeded()) return Failure(run.error());
  return run.report();
}

// Passes on what the dump has written (hand_over.h), until another word or its end.
Result<std::optional<char>> SourceDumps::follow(ToolRun &run) {
  for (std::string file;;) {
    CKPT_TRY(std::optional<char> word, run.next_word(meanwhile_));
    if (word == 'F') {
      CKPT_TRY(file, run.hear_text());
    } else if (word == 'W') {
      CKPT_TRY(u64 offset, run.hear_number<u64>());
      CKPT_TRY(u32 bytes, run.hear_number<u32>());
      CKPT_CHECK(written_(file, offset, bytes));
    } else {
      return word;
    }
  }
}

// It reports what it found even if that forbids a dump.
Result<json> SourceDumps::check() {
  std::vector<std::string> all{std::to_string(pid_), "--check", "--json", "--manifest"};
  if (options_.with_files) all.emplace_back("--with-files");
  CKPT_TRY(ToolRun run, ToolRun::start(kDumpTool, std::move(all)));
  CKPT_CHECK(run.wait(meanwhile_));
  json report = run.report();
  if (run.succeeded() && report.contains("manifest")) return report;
  return Failure(run.error());
}

Result<json> SourceDumps::running(const std::string &image, const std::string &parent) {
  std::vector<std::string> all = arguments(image, parent);
  all.insert(all.end(), {"--leave-running", "--passing"});
  CKPT_TRY(ToolRun run, ToolRun::start(kDumpTool, std::move(all), kConnection));
  CKPT_CHECK(follow(run));
  return finish(run);
}

Result<ToolRun> SourceDumps::stop(const std::string &image, const std::string &parent) {
  CKPT_TRY(ToolRun run, ToolRun::start(kDumpTool, arguments(image, parent), kConnection));
  CKPT_TRY(std::optional<char> word, follow(run));
  if (word != 'D') {
    CKPT_CHECK(run.wait(meanwhile_));
    return Failure(run.error());
  }
  CKPT_TRY(paused_, run.hear_number<double>());
  return run;
}

// Not to be interrupted: either the program has ended, or it goes on here.
Result<> SourceDumps::end(ToolRun &stopped) {
  CKPT_CHECK(stopped.say('E'));
  return stopped.hear('K', [] { return Result<>(); });
}

}  // namespace ckpt::tools
