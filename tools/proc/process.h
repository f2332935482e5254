// SPDX-License-Identifier: Apache-2.0
//
// What /proc says about processes. Everything here is a snapshot: a process may be gone a moment
// later, and every caller must live with that.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  pid_t tracer = 0;
  char state = '?';
  std::string command;         // comm, at most 15 letters
  std::vector<pid_t> ns_pids;  // outermost first; the last is its PID in its own namespace
  std::vector<pid_t> ns_groups;
  std::vector<pid_t> ns_sessions;
  u64 resident_bytes = 0;

  pid_t ns_pid() const { return ns_pids.empty() ? pid : ns_pids.back(); }
};

Result<Process> read_process(pid_t pid);
std::string executable_of(pid_t pid);  // the target of /proc/PID/exe, "" if it cannot be read
std::string executable_name(pid_t pid);
std::vector<std::string> arguments_of(pid_t pid);
std::string working_folder_of(pid_t pid);
std::string environment_of(pid_t pid, std::string_view name);
// The threads, as /proc numbers them for us.
std::vector<pid_t> threads_of(pid_t pid);
std::string thread_name(pid_t pid, pid_t tid);
// The same threads as their own namespace numbers them: what CRIU must find free.
std::vector<pid_t> ns_threads_of(pid_t pid);

// Does the leader of our session live outside of our PID namespace (`unshare --pid`, a container
// that was entered)? CRIU keeps no session that it cannot name; a program then needs one of its
// own.
bool session_is_outside();

// All processes of the machine at one moment.
class ProcessTable {
 public:
  static ProcessTable read();
  const Process *find(pid_t pid) const;
  std::vector<pid_t> children(pid_t parent) const;
  // `root` and all that descends from it, parents before children.
  std::vector<Process> tree(pid_t root) const;

 private:
  std::map<pid_t, Process> all_;
};

}  // namespace ckpt::tools
