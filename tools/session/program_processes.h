// SPDX-License-Identifier: Apache-2.0
//
// The processes of a keeper's program, as the kernel has them now: the program's tree, and the
// orphans that the keeper has inherited.
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "tools/proc/process.h"
#include "tools/session/proxies.h"

namespace ckpt::tools {

class ProgramProcesses {
 public:
  explicit ProgramProcesses(const Proxies &proxies) : proxies_(proxies) {}

  // The children that this process has now do not belong to the program. Returns them.
  const std::set<pid_t> &note_foreign();
  // ckpt-helper restores the program: the program and its orphans are descendants of this process,
  // not of ours.
  void are_below(pid_t stem) { stem_ = stem; }

  std::vector<Process> all() const;
  // Whether one lives, as far as the kernel knows by now.
  bool any() const;
  // Also what restores them.
  void kill();

 private:
  std::vector<pid_t> children(const ProcessTable &table) const;

  const Proxies &proxies_;
  pid_t stem_ = 0;
  std::set<pid_t> foreign_;  // kForeignChildrenFile
};

}  // namespace ckpt::tools
