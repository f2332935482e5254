// SPDX-License-Identifier: Apache-2.0
//
// From any PID to the program that it belongs to: its keeper, its root, its processes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

struct Target {
  pid_t keeper = 0;
  std::string session_socket;  // the keeper's
  pid_t root = 0;              // as we see it
  bool own_pid_namespace = false;
  std::vector<Process> processes;   // the tree, the root first
  std::vector<std::string> agents;  // sockets, one per process that has an agent
  std::vector<pid_t> agent_pids;    // whose they are
  std::vector<pid_t> escaped;       // of the session, and outside the tree

  bool has_agent(pid_t pid) const;
};

// Whether or not its agent listens now.
bool runs_agent(pid_t pid);

// `pid`: a keeper's or any process's of its program. Waits for agents that are on their way back
// from an earlier checkpoint.
Result<Target> resolve_target(pid_t pid);

}  // namespace ckpt::tools
