// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/unique_fd.h"
#include "tools/start/start.h"

namespace ckpt::tools {

// The keepers of all copies of one start, as children of this process.
class Copies {
 public:
  // What a copy's process does (run_copy), with the function that reports that its program runs.
  using Report = std::function<void(const nlohmann::json &)>;
  using Body = std::function<Result<int>(u32 number, const Report &report)>;

  // Forks one child for each copy. In a child: runs `body`, and returns its exit code. In the
  // parent: no value.
  std::optional<int> start(u32 count, bool detach, const Body &body);
  // Waits until each copy runs or has ended. Calls `each` for those that run.
  void wait_until_running(const std::function<void(u32 number, const nlohmann::json &)> &each);
  // Waits until all have ended. Calls `each` with the wait status.
  void wait_for_ends(const std::function<void(u32 number, int wait_status)> &each);

  bool all_running() const;
  // Of each copy: its PID, times, exit code or signal, or why it could not be started.
  nlohmann::json report() const;
  // 0 if all have ended with 0. Of one copy its own, otherwise 1.
  int exit_code() const;

 private:
  struct One {
    u32 number;
    pid_t keeper;
    UniqueFd reports;
    nlohmann::json facts;
    bool running = false;
    std::optional<int> wait_status;
  };
  int run_child(u32 number, bool detach, UniqueFd out, const Body &body);
  std::vector<One> all_;
};

}  // namespace ckpt::tools
