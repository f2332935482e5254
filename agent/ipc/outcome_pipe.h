// SPDX-License-Identifier: Apache-2.0
//
// The outcome pipe, in which a detached process waits for the outcome of the dump
// (agent/protocol.h).
#pragma once

#include <string>

#include "agent/ipc/own_fd.h"
#include "agent/protocol.h"

namespace ckpt::agent {

struct CheckpointOutcome {
  protocol::Outcome outcome = protocol::Outcome::Failed;
  u32 agent = 0;     // Restored: the number of this agent in the image
  std::string text;  // Restored: the socket of the new session; Failed: why
  bool continues() const {
    return outcome == protocol::Outcome::Continue || outcome == protocol::Outcome::ContinueOwed;
  }
};

// Waits without a time limit. End of file and malformed messages count as Failed.
CheckpointOutcome read_outcome(const OwnFd &pipe);
bool is_pipe(int fd);

// Distinguishes a restored copy from the original: a restore replaces the outcome pipe by a new one
// (criu restore --inherit-fd). It is needed only if the restore was killed before it could send the
// outcome "restored".
class PipeIdentity {
 public:
  explicit PipeIdentity(const OwnFd &pipe);
  bool is_still(const OwnFd &pipe) const { return PipeIdentity(pipe).inode_ == inode_; }

 private:
  u64 inode_;
};

}  // namespace ckpt::agent
