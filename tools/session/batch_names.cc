// SPDX-License-Identifier: Apache-2.0
#include "tools/session/batch_names.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace ckpt::tools {
namespace {

// As Slurm, PBS, Grid Engine and LSF name them.
constexpr const char *kJobVariables[] = {"SLURM_JOB_ID", "PBS_JOBID", "JOB_ID", "LSB_JOBID"};
constexpr const char *kTaskVariables[] = {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

template <size_t N>
Result<std::string> first_of(const char *const (&variables)[N], const std::string &option,
                             char placeholder) {
  std::string names;
  for (const char *v : variables) {
    // A job's number must not lead out of the folder.
    std::string value = std::getenv(v) ? std::getenv(v) : "";
    if (!value.empty() && value.find('/') == value.npos) return value;
    names += names.empty() ? v : fmt::format(", {}", v);
  }
  return fail_with_hint(
      fmt::format("{} has %{}, but none of {} is set", option, placeholder, names),
      "write it without that, or start the program in a batch job");
}

}  // namespace

Result<std::string> with_batch_names(const std::string &option, const std::string &pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    char letter = i + 1 < pattern.size() ? pattern[++i] : '\0';
    if (letter == '%') {
      path += '%';
    } else if (letter == 'j') {
      CKPT_TRY(std::string job, first_of(kJobVariables, option, 'j'));
      path += job;
    } else if (letter == 't') {
      CKPT_TRY(std::string task, first_of(kTaskVariables, option, 't'));
      path += task;
    } else {
      return fail_with_hint(fmt::format("{} {}: unknown placeholder", option, pattern),
                            "%j is the job's number, %t the task's; %% is a percent sign");
    }
  }
  return path;
}

std::string without_batch_names(const std::string &plain) {
  std::string pattern;
  for (char c : plain) pattern.append(c == '%' ? 2 : 1, c);
  return pattern;
}

std::string this_batch_start() {
  const char *job = std::getenv("SLURM_JOB_ID"), *restarts = std::getenv("SLURM_RESTART_COUNT");
  return job ? fmt::format("{}.{}", job, restarts ? restarts : "0") : "";
}

unsigned tasks_of_this_step() {
  const char *set = std::getenv("SLURM_STEP_NUM_TASKS");
  std::string_view text = set ? set : "";
  unsigned n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : 0;
}

}  // namespace ckpt::tools
