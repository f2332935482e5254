// SPDX-License-Identifier: Apache-2.0
//
// One run of a program for the sake of its measures: from its start to the end of its first
// process.
#pragma once

#include "common/base/result.h"
#include "tools/proc/command.h"

namespace ckpt::tools {

// Seconds of the run. Signals that are sent to this process go to the program, which then ends
// the measurement. A program that fails or is killed has done something else than usual, so that
// is an error.
Result<double> measured_run(const Spawn &program);

}  // namespace ckpt::tools
