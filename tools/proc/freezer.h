// SPDX-License-Identifier: Apache-2.0
//
// The control group that keeps a process frozen: cgroup.freeze of version 2 (cgroups(7)), or
// freezer.state of version 1. Container engines pause containers by it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

class Freezer {
 public:
  // The nearest group above the process that was frozen by itself; none: the process is not frozen.
  static std::optional<Freezer> holding(pid_t pid);

  const std::string &group() const { return group_; }
  Result<> thaw() const;
  // Returns when all processes of the group are frozen.
  Result<> freeze() const;

 private:
  Freezer(std::string group, bool version_2) : group_(std::move(group)), version_2_(version_2) {}
  bool frozen_by_itself() const;
  bool is_frozen() const;

  std::string group_;  // its folder
  bool version_2_;
};

}  // namespace ckpt::tools
