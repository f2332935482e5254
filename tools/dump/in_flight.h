// SPDX-License-Identifier: Apache-2.0
//
// Descriptors in flight: sent through a UNIX socket (SCM_RIGHTS) and not received yet. No process
// has them open, so /proc does not list them, but CRIU saves them with the socket's queue.
#pragma once

#include <set>

#include "tools/dump/outer_pipes.h"

namespace ckpt::tools {

// The inodes of the pipes in flight inside of the program, which must be stopped.
std::set<u64> pipes_in_flight(const DescriptorTable &table);

}  // namespace ckpt::tools
