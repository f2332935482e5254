// SPDX-License-Identifier: Apache-2.0
//
// After a checkpoint: waits in a thread until the owners of shared device memory have loaded it,
// and maps it (memory/ipc_memory.h). Until then the program's calls wait at the gates.
#pragma once

#include <functional>
#include <optional>

#include "common/base/clock.h"
#include "common/base/timed_call.h"

namespace ckpt::cuda {

// Used by the agent's thread.
class LateMemory {
 public:
  // `then` is called in that thread, with an error if the memory does not come.
  Result<> start(std::function<void(const Result<> &)> then);
  // False: it still waits at `deadline`.
  bool wait_until(Clock::time_point deadline);

 private:
  std::optional<TimedCall<bool>> waiting_;
};

}  // namespace ckpt::cuda
