// SPDX-License-Identifier: Apache-2.0
//
// With CKPT_SOFTCUDA_TOGETHER, cuCheckpointProcessLock waits while another process is checkpointed,
// as NVIDIA's driver does where processes depend on each other (NVIDIA/cuda-checkpoint#30). Here
// all processes of one broker depend on each other. So a tool has to lock all of them before it
// checkpoints the first.
#pragma once

#include <chrono>

namespace ckpt::softcuda::driver {

// This process is checkpointed, until note_away(false). It has no connection to the broker then, so
// a file beside the broker's socket says it, with the process's ID in its name.
void note_away(bool away);
// Waits for the other processes. `limit` 0 means no limit. False: one is still away.
bool wait_for_others(std::chrono::milliseconds limit);

}  // namespace ckpt::softcuda::driver
