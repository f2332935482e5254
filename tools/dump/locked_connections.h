// SPDX-License-Identifier: Apache-2.0
//
// The TCP connections of a program while it is dumped. Their packets stay where they are, so that
// CRIU finds both ends as of the same moment.
#pragma once

#include "common/base/result.h"
#include "tools/dump/connections.h"
#include "tools/net/connection_lock.h"
#include "tools/net/repair_mode.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class LockedConnections {
 public:
  // `closed`: a restore closes them all, so that no packet need be stopped.
  Result<> lock(const Target &target, bool closed);
  void release() { lock_.release(); }

  const Connections &all() const { return all_; }
  bool criu_dumps_them() const { return !closed_ && !all_.empty(); }
  // CRIU would have dumped these too, while their packets were not stopped.
  Result<> check_none_new(const Connections &now) const;
  // What leave_repair_mode() needs.
  const ReuseOfSockets &reuse() const { return reuse_; }

 private:
  bool closed_ = false;
  Connections all_;
  ReuseOfSockets reuse_;
  ConnectionLock lock_;
};

}  // namespace ckpt::tools
