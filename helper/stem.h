// SPDX-License-Identifier: Apache-2.0
//
// The stem of a restore by ckpt-helper: the first process of the PID namespace in which CRIU
// restores the program. tools/restore/stem.h says why it is needed. Once this stem has started
// CRIU, it has no rights left: it then runs as the caller, like the program.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/base/result.h"
#include "helper/child.h"
#include "helper/identity.h"
#include "helper/namespace.h"
#include "helper/resource_limits.h"

namespace ckpt::helper {

struct StemPlan {
  Child criu;
  NewNamespace surroundings;
  bool lead_terminal = false;  // a session on CRIU's standard input
  pid_t root = 0;              // of the program, in the namespace
  int events = -1;             // the connection
  std::optional<Limits> most;  // the program's limits are lowered to these
};

// Starts the stem in its namespaces. It ends when the last process of the namespace has ended, or
// if the connection ends before the program was acknowledged, and takes the namespace with it.
Result<pid_t> start_stem(const StemPlan &plan, const Identity &identity, u64 capabilities);

}  // namespace ckpt::helper
