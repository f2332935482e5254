// SPDX-License-Identifier: Apache-2.0
#include "tools/slurm_command.h"

#include "tools/proc/command.h"

namespace ckpt::tools {

// timeout(1): Slurm's commands wait for minutes if the controller does not answer.
Result<std::string> slurm_command(std::vector<std::string> argv) {
  std::string line = fmt::format("{}", fmt::join(argv, " "));
  argv.insert(argv.begin(), {"timeout", "20"});
  CKPT_TRY(CommandResult r, run_command(argv, ""));
  if (r.exit_code == 0) return r.output;
  return fail_with_hint(fmt::format("{} returned {}", line, r.exit_code),
                        "check that Slurm's controller runs, and SLURM_CONF");
}

}  // namespace ckpt::tools
