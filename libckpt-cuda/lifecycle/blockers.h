// SPDX-License-Identifier: Apache-2.0
//
// The program's uses of CUDA that keep it from being checkpointed, now or for the rest of its life
// (entry/noted_blockers.h).
#pragma once

#include <string>
#include <vector>

namespace ckpt::cuda {

// Appends a sentence for each current blocker: the recorded ones, managed memory and variables, and
// streams that are being captured.
void append_blockers(std::vector<std::string> &reasons);

}  // namespace ckpt::cuda
