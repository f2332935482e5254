// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/base/unique_fd.h"

namespace ckpt::tools {

// ckpt-restore --detach: a child process in a session of its own restores the program. It keeps our
// standard error until the program runs, and SIGINT and SIGTERM cancel it until then.
class Background {
 public:
  // Forks. In the parent: waits until the child has reported or ended, and returns the exit code.
  // In the child: returns no value.
  std::optional<int> detach();
  // In the child: reports that the program runs.
  void report(pid_t pid);

 private:
  UniqueFd report_;
};

}  // namespace ckpt::tools
