// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/managed/messages.h"
#include "manager/daemon/io/peer.h"

namespace ckpt::manager {

// Bounds what a program makes the daemon keep and show. Its PID is the kernel's, in the Manager's
// PID namespace: an administrator may end the program by it. 0 means a process outside of that
// namespace.
managed::ToManager bounded(const Peer &peer, managed::ToManager message);

}  // namespace ckpt::manager
