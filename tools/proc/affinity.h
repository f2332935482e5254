// SPDX-License-Identifier: Apache-2.0
//
// The processors that a thread may run on, as taskset(1), mpirun and OpenMP's runtimes choose them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

class Affinity {
 public:
  // No processor, if the thread has ended.
  static Affinity of(pid_t thread);
  // Reads a list such as "0-3,8" as the kernel writes it (proc_pid_status(5), Cpus_allowed_list):
  // ascending, with gaps between the ranges. Nothing: it is no such list. Takes linear time.
  static std::optional<Affinity> parse(std::string_view list);

  std::string list() const;
  std::vector<int> numbers() const;
  bool empty() const { return ranges_.empty(); }
  // The thread may then run on those of these processors that its machine and its control group
  // have. Fails if there are none (EINVAL), or if the thread may not be changed.
  Result<> apply_to(pid_t thread) const;
  bool operator==(const Affinity &other) const = default;

 private:
  bool add(std::string_view range);

  std::vector<std::pair<int, int>> ranges_;  // first and last, ascending, with gaps between them
};

}  // namespace ckpt::tools
