// SPDX-License-Identifier: Apache-2.0
//
// Continues the keeper when its program is continued.
//
// While job control has stopped a program, its keeper is stopped as well, so that its parent sees
// the job stop. "fg" continues both. But after SIGCONT to the program alone, or after its end, the
// keeper would stay stopped, since a stopped process notices nothing. So a child of the keeper
// looks at the program's state (proc(5)) every few milliseconds until it runs or has ended. There
// is no event to wait for: only the program's parent, which may be the stem, sees WCONTINUED.
#pragma once

#include <sys/types.h>

namespace ckpt::tools {

class StopWatcher {
 public:
  // Watches `program` from a child process until the destructor ends that child.
  explicit StopWatcher(pid_t program);
  StopWatcher(const StopWatcher &) = delete;
  ~StopWatcher();

  bool started() const { return child_ > 0; }
  pid_t pid() const { return child_; }

 private:
  pid_t child_;
};

}  // namespace ckpt::tools
