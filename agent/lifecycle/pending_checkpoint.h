// SPDX-License-Identifier: Apache-2.0
//
// The call of ckpt_checkpoint() that waits for its outcome.
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
  // False: another call is waiting already.
  bool begin();
  void end();
  // Waits for the verdict, and asks `keeper_alive` now and then whether there will be one.
  Verdict wait(const std::function<bool()> &keeper_alive);

  void decide(Verdict verdict);
  // The verdict as this process sees it. The session keeper may know a better reason: wait() allows
  // it a moment for decide().
  void presume(Verdict verdict);
  // Whether a call is waiting, which receives the verdict.
  bool awaited() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool active_ = false;
  std::optional<Verdict> decided_, presumed_;
};

}  // namespace ckpt::agent
