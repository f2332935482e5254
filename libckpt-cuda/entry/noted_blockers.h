// SPDX-License-Identifier: Apache-2.0
//
// Calls of the program after which it cannot be checkpointed for the rest of its life.
#pragma once

#include <string>
#include <vector>

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// A call of `id` has succeeded after which no checkpoint is possible. `what` has static storage
// duration and names the use: "it uses multicast memory".
void note_blocker(Id id, const char *what);

// The program has called `name`, an entry or a form that is newer than those of cuda/entries.api.
// `name` lives as long as the process.
void note_newer_call(const char *name);

// Appends a sentence for each.
void append_noted_blockers(std::vector<std::string> &reasons);

}  // namespace ckpt::cuda
