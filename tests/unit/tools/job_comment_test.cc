// SPDX-License-Identifier: Apache-2.0
#include "tools/session/job_comment.h"

#include <doctest/doctest.h>

using namespace ckpt::tools;

TEST_CASE("a note in a job's comment stands behind the user's part") {
  CHECK(with_note("", "exit code 85") == "[ckpt: exit code 85]");
  CHECK(with_note("my job", "exit code 85") == "my job [ckpt: exit code 85]");
  CHECK(with_note("my [best] job", "a") == "my [best] job [ckpt: a]");
}

TEST_CASE("the next note replaces it") {
  for (const char *mine :
       {"", "my job", "my job ", "[ckpt: not a note of ours", "ckpt:seconds=60"}) {
    std::string comment = with_note(with_note(mine, "exit code 85"), "exit code 86");
    CHECK(comment == with_note(mine, "exit code 86"));
    CHECK(without_note(comment) == mine);
  }
}

TEST_CASE("a comment that Slurm would refuse is not made") {
  CHECK(with_note(std::string(1011, 'x'), "note").size() == 1024);
  CHECK(with_note(std::string(1012, 'x'), "note").empty());
  CHECK(with_note("", exit_code_note(85, std::string(5000, '/'))).size() < 600);
}

TEST_CASE("only the exit codes of a checkpoint have a note") {
  for (int code : {0, 1, 87, 125}) CHECK(exit_code_note(code, "a.img").empty());
  CHECK(
      exit_code_note(85, "images/\n.img").find("checkpointed to images/\\x0a.img, not failed; ") !=
      std::string::npos);
  CHECK(exit_code_note(86, "a.img").find("exit code 86") == 0);
}
