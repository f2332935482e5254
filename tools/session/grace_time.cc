// SPDX-License-Identifier: Apache-2.0
#include "tools/session/grace_time.h"

#include <charconv>
#include <cstdlib>

#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "tools/history/history.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

// timeout(1): scontrol itself waits for minutes if the controller does not answer. KILL, because it
// ignores the signals of --on-signal.
constexpr const char *kAsk =
    "command -v scontrol >/dev/null && "
    "exec timeout -s KILL 5 scontrol --oneliner show partition \"$1\" 2>/dev/null";

// The value of NAME=VALUE in a line of such words.
std::optional<std::string> field(const std::string &line, const std::string &name) {
  size_t at = (" " + line).find(" " + name + "=");
  if (at == line.npos) return std::nullopt;
  at += name.size() + 1;
  return line.substr(at, line.find_first_of(" \n", at) - at);
}

}  // namespace

std::optional<double> parse_grace_time(const std::string &line) {
  std::optional<std::string> mode = field(line, "PreemptMode"), text = field(line, "GraceTime");
  if (!mode || *mode == "OFF" || mode->starts_with("SUSPEND") || !text) return std::nullopt;
  unsigned seconds = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return seconds;
}

GraceTime GraceTime::of_this_job() {
  GraceTime g;
  const char *partition = std::getenv("SLURM_JOB_PARTITION");
  if (!partition || !*partition) return g;
  g.partition_ = partition;
  Result<CommandResult> said = run_command({"/bin/sh", "-c", kAsk, "sh", g.partition_}, "");
  if (said && said->exit_code == 0) g.seconds_ = parse_grace_time(said->output);
  return g;
}

void GraceTime::compare(double seconds) {
  if (!seconds_ || seconds <= *seconds_) return;
  log::warn(
      "a checkpoint of this program took {:.1f} s, but Slurm kills a preempted job of partition {} "
      "after {:.0f} s: its work since the last image would be lost; ask the administrator for a "
      "longer GraceTime, and use --every",
      seconds, printable(partition_), *seconds_);
  seconds_.reset();
}

std::optional<double> last_cost(const std::string &series_folder) {
  std::optional<double> cost;
  for (const nlohmann::json &e : read_history(history_file())) {
    const nlohmann::json &seconds = json_member(e, "seconds");
    if (json_member(e, "event") == "dump" && seconds.is_number() &&
        json_string(e, "image").starts_with(series_folder + "/"))
      cost = seconds.get<double>();
  }
  return cost;
}

}  // namespace ckpt::tools
