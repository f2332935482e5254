// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/updates.h"

#include <algorithm>
#include <optional>

#include "tools/proc/command.h"
#include "tools/slurm_command.h"

namespace ckpt::tools {
namespace {

constexpr std::string_view kPrompt = "scontrol: ";
// A command that hangs stops at most so many others.
constexpr size_t kMostAtOnce = 500;
// scontrol waits for minutes if the controller does not answer. It needs 2 to 15 ms for a change.
constexpr size_t kSeconds = 20, kChangesASecond = 10;
constexpr int kTimedOut = 124;

struct Command {
  u64 job;
  std::vector<std::string> words;

  std::string line() const { return fmt::format("{}", fmt::join(words, " ")); }
  // scontrol has no way to write the others in a line: it keeps quotes, and splits at spaces.
  bool fits_in_a_line() const {
    return std::ranges::all_of(words, [](const std::string &word) {
      return std::ranges::all_of(word, [](char c) {
        return c > ' ' && c < 0x7f &&
               std::string_view("\"'\\#;!").find(c) == std::string_view::npos;
      });
    });
  }
};

using Failures = std::map<u64, std::string>;

void run_alone(const Command &c, Failures &failures) {
  std::vector<std::string> argv = {"scontrol"};
  argv.insert(argv.end(), c.words.begin(), c.words.end());
  if (Result<std::string> done = slurm_command(argv); !done)
    failures.try_emplace(c.job, done.error().what);
}

void run_together(const std::vector<Command> &commands, Failures &failures) {
  std::vector<std::string> lines;
  std::string input;
  for (const Command &c : commands) input += lines.emplace_back(c.line()) + "\n";
  const std::string seconds = fmt::format("{}", kSeconds + commands.size() / kChangesASecond);
  Result<CommandResult> r =
      run_command({"timeout", seconds, "sh", "-c", "exec scontrol 2>&1"}, input);
  if (r && r->exit_code == 0) return;
  std::optional<std::vector<std::string>> answers;
  if (r) answers = answers_in(r->output, lines, r->exit_code != kTimedOut);
  const bool one_failed =
      answers && std::ranges::any_of(*answers, [](const std::string &a) { return !a.empty(); });
  for (size_t i = 0; i < commands.size(); i++)
    if (!one_failed)
      run_alone(commands[i], failures);  // to do a change twice changes nothing
    else if (!(*answers)[i].empty())
      failures.try_emplace(commands[i].job, (*answers)[i]);
}

}  // namespace

std::optional<std::vector<std::string>> answers_in(std::string_view output,
                                                   const std::vector<std::string> &commands,
                                                   bool ended) {
  std::vector<std::string> answers(commands.size());
  size_t begun = 0;
  while (!output.empty()) {
    std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    std::string_view read = line.starts_with(kPrompt) ? line.substr(kPrompt.size()) : "";
    if (begun < commands.size() && read == commands[begun]) {
      begun++;
    } else if (begun > 0 && line != kPrompt && !line.empty()) {
      std::string &answer = answers[begun - 1];
      answer += (answer.empty() ? "" : "; ") + std::string(line);
    }
  }
  if (begun == commands.size()) return answers;
  if (ended) return {};
  for (size_t i = begun == 0 ? 0 : begun - 1; i < commands.size(); i++)
    if (answers[i].empty()) answers[i] = "Slurm did not answer in time";
  return answers;
}

Updates::Change &Updates::of(u64 job) {
  auto [at, added] = index_.try_emplace(job, changes_.size());
  if (added) changes_.push_back({job, {}});
  return changes_[at->second];
}

void Updates::set(u64 job, std::vector<std::string> fields) { of(job).fields = std::move(fields); }

void Updates::release(u64 job) { of(job).release = true; }

std::map<u64, std::string> Updates::run() {
  std::map<u64, std::string> failures;
  std::vector<Command> together;
  auto flush = [&] {
    if (together.size() == 1) run_alone(together[0], failures);
    if (together.size() > 1) run_together(together, failures);
    together.clear();
  };
  auto add = [&](Command c) {
    if (!c.fits_in_a_line()) {
      flush();
      return run_alone(c, failures);
    }
    together.push_back(std::move(c));
    if (together.size() == kMostAtOnce) flush();
  };
  for (const Change &c : changes_) {
    if (!c.fields.empty()) {
      std::vector<std::string> words = {"update", fmt::format("JobId={}", c.job)};
      words.insert(words.end(), c.fields.begin(), c.fields.end());
      add({c.job, std::move(words)});
    }
    if (c.release) add({c.job, {"release", fmt::format("{}", c.job)}});
  }
  flush();
  changes_.clear();
  index_.clear();
  return failures;
}

}  // namespace ckpt::tools
