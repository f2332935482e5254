// SPDX-License-Identifier: Apache-2.0
//
// How the programs of a job have ended, and what a member that is started again has to do
// (ckpt-run --job --continue).
//
// All members of a job that is started again must choose alike, although they look at different
// times. So a choice depends only on what no member changes meanwhile: complete checkpoints, and
// the file "finished", which is written before the first program starts anew.
#pragma once

#include <optional>
#include <string>

#include "tools/job/job_folder.h"

namespace ckpt::tools {

// The member's program has ended by itself, with this exit code (128 + N: by signal N). `start`: of
// the batch job.
Result<> note_end(const JobFolder &folder, const std::string &member, int code,
                  const std::string &start);
// It is started or restored.
void forget_end(const JobFolder &folder, const std::string &member);
// How many programs have ended since this start of the batch job.
size_t count_ends(const JobFolder &folder, const std::string &start);

// The last end of the member's program was with status 0.
bool has_ended_well(const JobFolder &folder, const std::string &member);

struct FailedMember {
  std::string name, file;  // `file` says so
  int code = 0;
};
// A member that has failed, of the newest checkpoint of unfinished work or of this start of the
// batch job. The job cannot be continued from a checkpoint without it.
std::optional<FailedMember> failed_member(const JobFolder &folder, const std::string &start);

// Where a member's command is noted, to recognise it when it is started again.
std::string command_file(const JobFolder &folder, const std::string &member);

enum class JobStart {
  Program,  // there is no checkpoint of unfinished work
  Restore,  // from the newest complete checkpoint
  Nothing,  // the program had finished before that checkpoint
};

Result<JobStart> how_to_start(const JobFolder &folder, const std::string &member);

}  // namespace ckpt::tools
