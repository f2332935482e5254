// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/result.h"
#include "tools/dump/connections.h"

namespace ckpt::tools {

// Where a dump waits for those of the other programs of a job. An error undoes the dump, like any
// other.
class DumpBarriers {
 public:
  virtual ~DumpBarriers() = default;
  // The program was not touched yet. `may_close`: the processes with callbacks that may close
  // their connections.
  virtual Result<> ready(const Connections &now, const std::set<pid_t> &may_close) = 0;
  // The callbacks of the program have run, and its devices are detached. What they have closed
  // must reach the other ends before packets are stopped.
  virtual Result<> settled() = 0;
  // The packets of these connections are stopped.
  virtual Result<> locked(const Connections &stopped) = 0;
  // The program stands still, and everything of it is read.
  virtual Result<> captured() = 0;
  // The image is complete. An error: it must not remain.
  virtual Result<> durable() = 0;
};

}  // namespace ckpt::tools
