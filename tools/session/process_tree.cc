// SPDX-License-Identifier: Apache-2.0
#include "tools/session/process_tree.h"

#include <signal.h>

#include <algorithm>
#include <set>

#include "tools/session/stop_signals.h"

namespace ckpt::tools {

void continue_processes(std::vector<Process> tree, const std::set<pid_t> &leave_stopped,
                        const ReuseOfSockets &reuse) {
  leave_repair_mode(tree, reuse);
  discard_stop_signals(tree, leave_stopped);
  std::reverse(tree.begin(), tree.end());
  for (const Process &p : tree)
    if (!leave_stopped.contains(p.pid)) ::kill(p.pid, SIGCONT);
}

void continue_tree(pid_t root, const std::set<pid_t> &leave_stopped) {
  continue_processes(ProcessTable::read().tree(root), leave_stopped);
}

void kill_tree(pid_t root) {
  // SIGSTOP first, so that no process can start another one meanwhile. If a parent ends meanwhile,
  // its children are no longer in the tree.
  std::set<pid_t> all;
  for (int signal : {SIGSTOP, SIGKILL}) {
    for (const Process &p : ProcessTable::read().tree(root)) all.insert(p.pid);
    for (pid_t pid : all) ::kill(pid, signal);
  }
}

bool runs_stems(pid_t pid) {
  std::string name = executable_name(pid);
  return name == "ckpt-restore" || name == "ckpt-start";
}

bool is_own_helper(pid_t pid) {
  std::string name = executable_name(pid);
  return name == "ckpt-run" || name == "ckpt-dump" || name == "ckpt-restore" ||
         name == "ckpt-start" || name == "ckpt-cuda-server" ||
         (name.starts_with("ckpt-") && (name.ends_with("-proxy") || name.ends_with("-broker")));
}

}  // namespace ckpt::tools
