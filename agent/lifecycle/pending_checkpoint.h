// SPDX-License-Identifier: Apache-2.0
//
// The thread that waits in ckpt_checkpoint(), and what the agent tells it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "common/base/result.h"

namespace ckpt::agent {

struct Verdict {
  int code = 0;  // enum ckpt_outcome or enum ckpt_error
  Error why;
};

class PendingCheckpoint {
 public:
  // One at a time; false: there is one.
  bool begin();
  void end();
  Verdict wait(const std::function<bool()> &keeper_alive);

  void decide(Verdict verdict);
  // What it looks like from here. The session keeper may know a better reason, and gets a moment to
  // say it (decide()).
  void presume(Verdict verdict);
  // Whether somebody heard the last decide().
  bool awaited() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool active_ = false;
  std::optional<Verdict> decided_, presumed_;
};

}  // namespace ckpt::agent
