// SPDX-License-Identifier: Apache-2.0
//
// A dump by CRIU of a process tree with programs of ckpt: suspends them before, and notes in the
// image which.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "tools/criu_guard/record.h"
#include "tools/criu_guard/resumption.h"
#include "tools/dump/cancel.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class DumpGuard {
 public:
  // `image`: the folder of CRIU's image.
  DumpGuard(pid_t root, int image) : root_(root), image_(image) {}

  using Answer = std::function<void(const Result<> &)>;
  // Answers within `limit` (zero: without a limit), and perhaps returns later. False: it has
  // failed; suspended() names the programs that are suspended nevertheless.
  bool suspend(std::chrono::milliseconds limit, const Answer &answer);
  // By suspend(), and not by a user before.
  const std::vector<SuspendedProgram> &suspended() const { return suspended_; }

 private:
  Result<> suspend_thawed(Cancel &cancel, int seconds);
  Result<> suspend_programs(Cancel &cancel, int seconds);
  Result<> suspend_one(const Target &target, size_t level, Cancel &cancel, int seconds);

  pid_t root_;
  int image_;
  std::vector<SuspendedProgram> suspended_;
  std::vector<NestedPid> keepers_;
};

}  // namespace ckpt::tools
