// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_comment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "common/base/log.h"
#include "common/base/printable.h"
#include "tools/proc/command.h"
#include "tools/session/keeper.h"
#include "tools/session/on_signal.h"

namespace ckpt::tools {
namespace {

constexpr std::string_view kBegin = "[ckpt: ", kEnd = "]";

// Slurm refuses longer ones (job_mgr.c, _validate_job_desc).
constexpr size_t kLongestComment = 1024;
constexpr size_t kLongestImage = 400;

// As squeue prints a job without a comment.
constexpr std::string_view kNoComment = "(null)";

// timeout(1): Slurm's commands wait for minutes if the controller does not answer, and the batch
// system may kill this process soon. KILL, because they ignore the signals of --on-signal.
constexpr const char *kAsk =
    "command -v squeue >/dev/null && "
    "exec timeout -s KILL 2 squeue --noheader --jobs=\"$1\" --format=%k 2>/dev/null";
constexpr const char *kTell =
    "command -v scontrol >/dev/null && "
    "exec timeout -s KILL 2 scontrol update \"JobId=$1\" \"Comment=$2\" >/dev/null 2>&1";

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// The number of an array's last task is that of the whole array, so tasks have another name. Empty:
// there is no job, or it is heterogeneous: its number names all its components.
std::string name_of_this_job() {
  if (!variable("SLURM_HET_SIZE").empty()) return "";
  std::string array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? variable("SLURM_JOB_ID") : array + "_" + task;
}

bool is_first_task() {
  std::string task = variable("SLURM_PROCID");
  return task.empty() || task == "0";
}

std::optional<std::string> comment_of(const std::string &job) {
  Result<CommandResult> said = run_command({"/bin/sh", "-c", kAsk, "sh", job}, "");
  if (!said || said->exit_code != 0) return std::nullopt;
  std::string comment = said->output.substr(0, said->output.find_last_not_of('\n') + 1);
  return comment == kNoComment ? "" : comment;
}

}  // namespace

std::string_view without_note(std::string_view comment) {
  size_t at = comment.rfind(kBegin);
  if (at == comment.npos || !comment.ends_with(kEnd)) return comment;
  comment = comment.substr(0, at);
  if (comment.ends_with(' ')) comment.remove_suffix(1);
  return comment;
}

std::string with_note(std::string_view comment, std::string_view note) {
  std::string all(without_note(comment));
  if (!all.empty()) all += ' ';
  all += fmt::format("{}{}{}", kBegin, note, kEnd);
  return all.size() <= kLongestComment ? all : "";
}

std::string exit_code_note(int code, const std::string &image) {
  if (code != kCheckpointedExitCode && code != kHeldExitCode) return "";
  return fmt::format("exit code {}: checkpointed to {}, not failed; {}", code,
                     printable(image, kLongestImage),
                     code == kHeldExitCode ? "it continues when it is released"
                                           : "it continues when it is queued again");
}

void explain_in_job_comment(int code, const std::string &image) {
  std::string note = exit_code_note(code, image), job = name_of_this_job();
  if (note.empty() || job.empty() || !is_first_task()) return;
  std::optional<std::string> before = comment_of(job);
  std::string comment = before ? with_note(*before, note) : "";
  if (comment.empty()) return;
  Result<CommandResult> told = run_command({"/bin/sh", "-c", kTell, "sh", job, comment}, "");
  if (!told || told->exit_code != 0)
    log::info("Slurm has not taken the job's comment: {}", printable(comment));
}

}  // namespace ckpt::tools
