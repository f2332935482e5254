// SPDX-License-Identifier: Apache-2.0
//
// Finds the program to which a PID belongs: its keeper, its root and all its processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/proc/process.h"
#include "tools/proc/process_handle.h"

namespace ckpt::tools {

struct Target {
  pid_t keeper = 0;
  pid_t helper_stem = 0;       // of ckpt-helper, if it has restored the program
  std::string session_socket;  // the keeper's, as the keeper sees it
  pid_t root = 0;              // in our PID namespace
  ProcessHandle root_handle;
  bool own_pid_namespace = false;
  // A process with the program's mounts, and with the root folder that the program had at its
  // start: the root's parent. The program itself may have changed its root folder (chroot(2)).
  pid_t viewer = 0;
  // What paths of the program in /proc begin with here: "", or "/proc/PID/root" of the viewer if
  // that has mounts or a root of its own.
  std::string files;
  std::vector<Process> processes;   // the tree, the root first
  std::vector<std::string> agents;  // sockets, as these processes see them
  std::vector<pid_t> agent_pids;    // the processes that listen on them
  std::vector<pid_t> escaped;       // started by the program, but no longer in its process tree

  bool has_agent(pid_t pid) const;
  std::string agent_socket(pid_t pid) const;  // "": the process has no agent
  u64 smallest_file_size_limit() const;       // of all processes (RLIMIT_FSIZE)
};

// Has the keeper write those files of its session again that were removed, as a cleaner of /tmp may
// do. A keeper of an earlier version refuses it.
void renew_session_files(pid_t keeper, const std::string &session_socket);

// The process that a keeper knows by this PID (kProgramFile), or null. ckpt-helper restores a
// program below a stem of its own instead of below the keeper, and serves only its own PID
// namespace, which is then the keeper's and ours.
const Process *program_of_keeper(const ProcessTable &table, pid_t keeper, pid_t number);

// True if the process has an agent, whether or not it listens now.
bool runs_agent(pid_t pid);
// Whether an agent's socket was made by the process itself: its name has the PID of its maker.
bool has_made(const Process &process, const std::string &agent_socket);

// A process of the program that has got an agent since `t` was found; 0: none.
pid_t new_agent(const Target &t);
// Whether processes have started or ended since `t` was found, or have got an agent.
bool has_changed(const Target &t);

// The socket of the session that the process keeps, as it sees it; "": it is no keeper.
std::string session_socket_of(pid_t pid);

// `pid` is a keeper or any process of its program. Waits for agents that are not yet attached again
// after an earlier checkpoint, unless `check_cancelled` fails.
Result<Target> resolve_target(pid_t pid, const std::function<Result<>()> &check_cancelled = {});

}  // namespace ckpt::tools
