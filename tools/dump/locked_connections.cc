// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/locked_connections.h"

namespace ckpt::tools {

Result<> LockedConnections::lock(const Target &target, bool closed) {
  closed_ = closed;
  all_ = Connections::read(target);
  reuse_ = reuse_of_sockets(target.processes);
  if (!criu_dumps_them()) return {};
  CKPT_TRY(lock_, ConnectionLock::take(all_.flows()));
  return {};
}

Result<> LockedConnections::check_none_new(const Connections &now) const {
  if (closed_ || now.all_in(all_)) return {};
  return fail_with_hint("the program made a TCP connection in the middle of the checkpoint",
                        "run ckpt-dump again");
}

}  // namespace ckpt::tools
