// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

// Replaces %j by the batch job's number, %t by the task's, and %% by %. `option` is for messages.
Result<std::string> with_batch_names(const std::string &option, const std::string &pattern);

// A name from which with_batch_names() makes `plain`.
std::string without_batch_names(const std::string &plain);

// A name of this start of the batch job, which another start of it has not; "": there is none.
std::string this_batch_start();

// The number of programs that srun starts in this step; 0: srun has not started this process.
unsigned tasks_of_this_step();

}  // namespace ckpt::tools
