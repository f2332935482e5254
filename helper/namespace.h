// SPDX-License-Identifier: Apache-2.0
//
// What the first process of a new PID and mount namespace does before CRIU restores a program
// there.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"

namespace ckpt::helper {

struct NewNamespace {
  bool own_terminals = false;  // pseudo-terminals of its own
  pid_t last_pid = 0;          // PIDs of CRIU and its helpers start above this
  std::string seen_from;       // a folder that is to be seen
  std::string seen_as;         // … as this one; "": none
  uid_t owner = 0;             // of both folders; others are not mounted
};

// Mounts /proc, and what else was asked for. With MS_SLAVE, later mounts of the outside appear
// inside, but not the other way round.
Result<> set_up_namespace(const NewNamespace &n);

}  // namespace ckpt::helper
