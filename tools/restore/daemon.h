// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/base/unique_fd.h"

namespace ckpt::tools {

// --detach: a child leads a session of its own and does the work, with our standard error until the
// program runs.
class Daemon {
 public:
  // In the parent: the exit code, once the child has reported or died. In the child: no value.
  std::optional<int> detach();
  // In the child: the program runs.
  void report(pid_t pid);

 private:
  UniqueFd report_;
};

}  // namespace ckpt::tools
