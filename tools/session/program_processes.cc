// SPDX-License-Identifier: Apache-2.0
#include "tools/session/program_processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "tools/session/process_tree.h"

namespace ckpt::tools {

const std::set<pid_t> &ProgramProcesses::note_foreign() {
  std::vector<pid_t> children = ProcessTable::read().children(::getpid());
  foreign_ = {children.begin(), children.end()};
  return foreign_;
}

// Orphans of the program are children of the keeper, or of the stem of ckpt-helper.
std::vector<pid_t> ProgramProcesses::children(const ProcessTable &table) const {
  std::vector<pid_t> all = table.children(::getpid());
  std::erase_if(all, [this](pid_t p) { return foreign_.contains(p) || proxies_.has(p); });
  if (stem_)
    for (pid_t child : table.children(stem_)) all.push_back(child);
  return all;
}

// Below the keeper there are also its stem, with the program as its child, and dumps.
std::vector<Process> ProgramProcesses::all() const {
  ProcessTable table = ProcessTable::read();
  std::vector<Process> all;
  auto add_tree = [&](pid_t root) {
    for (const Process &p : table.tree(root))
      if (p.state != 'Z' && p.state != 'X') all.push_back(p);
  };
  for (pid_t child : children(table))
    if (!is_own_helper(child))
      add_tree(child);
    else if (runs_stems(child))
      for (pid_t below : table.children(child)) add_tree(below);
  return all;
}

bool ProgramProcesses::any() const {
  return std::ranges::any_of(all(), [](const Process &p) { return !is_own_helper(p.pid); });
}

// A PID namespace ends with its first process.
void ProgramProcesses::kill() {
  for (pid_t child : children(ProcessTable::read())) kill_tree(child);
  if (stem_) ::kill(stem_, SIGKILL);
}

}  // namespace ckpt::tools
