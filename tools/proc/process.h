// SPDX-License-Identifier: Apache-2.0
//
// Processes, as /proc shows them. Every result is a snapshot: the process may have ended when the
// caller uses it.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/as_user.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  pid_t tracer = 0;
  u64 terminal = 0;  // the device number of the controlling terminal; 0: none
  char state = '?';
  bool ending = false;         // in exit(2), or 'Z'; its executable and its files are gone already
  std::string command;         // comm: the name, cut to 15 characters
  std::vector<pid_t> ns_pids;  // from the outermost namespace to its own
  std::vector<pid_t> ns_groups;
  std::vector<pid_t> ns_sessions;
  u64 resident_bytes = 0;
  u64 start_ticks = 0;      // since the boot, in sysconf(_SC_CLK_TCK)
  u64 pending_signals = 0;  // of the process, not of its threads: bit N - 1 is signal N
  uid_t uid = 0;
  // Real, effective, saved and file system IDs (proc_pid_status(5)), and the further groups.
  std::vector<uid_t> uids;
  std::vector<gid_t> gids;
  std::vector<gid_t> groups;

  pid_t ns_pid() const { return ns_pids.empty() ? pid : ns_pids.back(); }
  // True if all its uids are `uid`, as they are unless it is a setuid program.
  bool has_only(uid_t uid) const;
  // Decided by its real IDs, those of the user who has started it.
  Credentials credentials() const;
};

double seconds_since_start(const Process &p);
std::set<pid_t> stopped_in(const std::vector<Process> &processes);  // by a signal such as SIGSTOP
std::string name_of(const Process &p);  // "process 12 (sh)", harmless for a terminal
Result<Process> read_process(pid_t pid);
std::string executable_of(pid_t pid);  // the target of /proc/PID/exe, "" if it cannot be read
std::string executable_name(pid_t pid);
std::vector<std::string> arguments_of(pid_t pid);
std::string working_folder_of(pid_t pid);
std::string environment_of(pid_t pid, std::string_view name);
// The soft limit of the size of files (RLIMIT_FSIZE); the greatest u64: none.
u64 file_size_limit_of(pid_t pid);
// The inode of a namespace ("mnt", "user"): equal for processes in the same one. 0: unknown.
u64 namespace_of(pid_t pid, const char *name);
// The thread IDs in our PID namespace.
std::vector<pid_t> threads_of(pid_t pid);
std::string thread_name(pid_t pid, pid_t tid);
// True for a process that has ended and was not reaped. The state 'Z' alone may be that of its
// main thread, while others go on.
bool all_threads_have_ended(pid_t pid);
// True if the main thread of the process has ended while others go on. Little of /proc/PID can
// then be read. False while the whole process ends.
bool only_main_thread_has_ended(const Process &p);
// The same threads, also with their IDs in their own PID namespace. CRIU needs these free at a
// restore.
struct ThreadIds {
  pid_t id;
  pid_t ns_id;
};
std::vector<ThreadIds> thread_ids_of(pid_t pid);

// True if the leader of our session is outside of our PID namespace, as after `unshare --pid` or in
// a container that was entered. getsid(2) then returns 0, and CRIU cannot dump a program in such a
// session: it needs a session of its own.
bool session_is_outside();

// All processes of the machine. A node may have thousands of them, so /proc/PID/status is read only
// for the processes that are asked for: beside 2000 others, a dump of a small program took 1.0 s,
// and 2.2 s when it was read for all. Not thread-safe.
class ProcessTable {
 public:
  static ProcessTable read();
  const Process *find(pid_t pid) const;
  std::vector<pid_t> children(pid_t parent) const;
  // The descendant of `ancestor` that has the PID `number` in the PID namespace of `ancestor`.
  const Process *find_below(pid_t ancestor, pid_t number) const;
  // `root` and all its descendants, parents before children.
  std::vector<Process> tree(pid_t root) const;
  // The PID and the name of each.
  std::vector<Process> names() const;

 private:
  struct Entry {
    Process process;
    bool complete = false;  // with what /proc/PID/status says
  };
  mutable std::map<pid_t, Entry> all_;
  std::map<pid_t, std::vector<pid_t>> children_;
};

}  // namespace ckpt::tools
