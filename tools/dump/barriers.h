// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/result.h"
#include "tools/dump/connections.h"

namespace ckpt::tools {

// The points at which a dump waits for the dumps of the other programs of a job. An error undoes
// the dump, like any other.
class DumpBarriers {
 public:
  virtual ~DumpBarriers() = default;
  // The program was not touched yet. `may_close`: the processes with callbacks that may close
  // their connections.
  virtual Result<> ready(const Connections &now, const std::set<pid_t> &may_close) = 0;
  // The callbacks of the program have run, and its devices are detached. The other ends of
  // connections that they have closed must learn this before packets are stopped.
  virtual Result<> settled() = 0;
  // The packets of these connections are stopped.
  virtual Result<> locked(const Connections &stopped) = 0;
  // The program is stopped and completely read.
  virtual Result<> captured() = 0;
  // The image is complete. If this fails, the image must be removed.
  virtual Result<> durable() = 0;
};

}  // namespace ckpt::tools
