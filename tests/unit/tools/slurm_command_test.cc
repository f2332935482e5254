// SPDX-License-Identifier: Apache-2.0
#include "tools/slurm_command.h"

#include <signal.h>

#include <cstdlib>

#include <doctest/doctest.h>

#include "tools/proc/command.h"

using namespace ckpt;
using namespace ckpt::tools;

TEST_CASE("a command prints no more than what is read of it") {
  Result<CommandResult> endless = run_command(Spawn{.argv = {"yes"}}, "", 1000);
  REQUIRE(endless);
  CHECK(endless->is_cut);
  CHECK(endless->exit_code == 128 + SIGPIPE);
  CHECK(endless->output.size() < 200'000);
  Result<CommandResult> whole = run_command(Spawn{.argv = {"cat"}}, "four", 4);
  REQUIRE(whole);
  CHECK_FALSE(whole->is_cut);
  CHECK(whole->output == "four");
}

TEST_CASE("what is set for squeue is not in its command's environment") {
  ::setenv("SQUEUE_USERS", "me", 1);
  Result<std::string> said =
      slurm_command({"sh", "-c", "echo $SQUEUE_USERS $SQUEUE_FORMAT"}, {{"SQUEUE_FORMAT", "%A"}});
  ::unsetenv("SQUEUE_USERS");
  REQUIRE(said);
  CHECK(*said == "%A\n");
}
