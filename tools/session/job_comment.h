// SPDX-License-Identifier: Apache-2.0
//
// Slurm's sacct shows a job that has left its node by a checkpoint with the exit code 85 or 86,
// which looks like a failure. So the tool that returns it says in the job's comment what it means:
//
//     COMMENT OF THE USER [ckpt: exit code 85: checkpointed to /data/images/17/0002.img, …]
//
// The note stands at the end, and the next one replaces it. The user's part is never changed.
#pragma once

#include <string>
#include <string_view>

namespace ckpt::tools {

// The user's part of a comment.
std::string_view without_note(std::string_view comment);

// The comment with this note, which replaces an earlier one. Empty if Slurm would refuse it,
// because it is too long.
std::string with_note(std::string_view comment, std::string_view note);

// What exit code 85 or 86 means; empty for other codes.
std::string exit_code_note(int code, const std::string &image);

// Puts the note into the comment of the Slurm job that this process belongs to. Does nothing
// elsewhere, and if Slurm does not answer within seconds or refuses it: the exit code alone decides
// what happens to the job. In a step of several tasks, the first one does it.
void explain_in_job_comment(int code, const std::string &image);

}  // namespace ckpt::tools
