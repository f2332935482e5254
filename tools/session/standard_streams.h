// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/session/keeper.h"

namespace ckpt::tools {

// Prints "TOOL: the program was checkpointed to IMAGE and stopped; …", or that it was moved to
// another machine, to standard error. Prints nothing if that is a regular file: the program
// probably writes to the same file, which must keep the size that the image recorded. Returns the
// exit code that says the same, or `code` if a signal has decided it; the comment of a Slurm job
// says what it means.
int report_stopped(const char *tool, const Keeper::Outcome &outcome, const std::string &job,
                   int code);

// If a standard stream is /dev/null and was opened outside of our mount namespace, as container
// runtimes do, opens it again, because CRIU could not save it.
void adopt_null_streams();

// Replaces our standard input and output by /dev/null. While the program runs, only the program may
// hold its streams open, so that a reader sees the end of file, and a writer a closed pipe, as soon
// as the program closes them.
void release_streams();

}  // namespace ckpt::tools
