// SPDX-License-Identifier: Apache-2.0
#include "tools/slurm_command.h"

#include "tools/proc/command.h"

#include <unistd.h>

namespace ckpt::tools {
namespace {

// A queue of a million jobs has less.
constexpr size_t kMostOutput = size_t{1} << 30;

// SQUEUE_STATES, SQUEUE_USERS …: they make squeue leave out jobs.
std::vector<std::string> options_of_squeue() {
  std::vector<std::string> names;
  for (char **e = environ; *e; e++)
    if (std::string_view entry = *e; entry.starts_with("SQUEUE_"))
      names.emplace_back(entry.substr(0, entry.find('=')));
  return names;
}

}  // namespace

// timeout(1): Slurm's commands wait for minutes if the controller does not answer.
Result<std::string> slurm_command(std::vector<std::string> argv, Environment environment) {
  std::string line = fmt::format("{}", fmt::join(argv, " "));
  argv.insert(argv.begin(), {"timeout", "20"});
  CKPT_TRY(CommandResult r, run_command(Spawn{.argv = std::move(argv),
                                              .environment = std::move(environment),
                                              .without = options_of_squeue()},
                                        "", kMostOutput));
  if (r.is_cut) return fail("{} printed more than {} MiB", line, kMostOutput >> 20);
  if (r.exit_code == 0) return r.output;
  return fail_with_hint(fmt::format("{} returned {}", line, r.exit_code),
                        "check that Slurm's controller runs, and SLURM_CONF");
}

}  // namespace ckpt::tools
