// SPDX-License-Identifier: Apache-2.0
//
// The word: what a detached process is waiting for.
#pragma once

#include <string>

#include "agent/ipc/own_fd.h"
#include "agent/protocol.h"

namespace ckpt::agent {

struct CheckpointOutcome {
  protocol::Outcome word = protocol::Outcome::Failed;
  u32 agent = 0;
  std::string text;  // Restored: the new session; Failed: why
};

// Waits for ever. End of file, and anything that is no word, count as Failed.
CheckpointOutcome read_outcome(const OwnFd &pipe);
bool is_pipe(int fd);

}  // namespace ckpt::agent
