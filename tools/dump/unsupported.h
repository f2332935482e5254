// SPDX-License-Identifier: Apache-2.0
//
// State of processes that CRIU cannot dump, or dumps and cannot restore, found before anything is
// touched: kinds of sockets, memory that others can change, and more. Descriptors and other
// namespaces are in preflight.cc, connections in connections.h.
#pragma once

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Processes whose first thread has ended while others run. CRIU reaches a process through its first
// thread, and so do all other checks: they cannot be asked about such a process.
void check_first_threads(const Target &target, Reasons &reasons);

// Kinds of sockets that CRIU cannot dump.
void check_socket_kinds(const Target &target, Closables &reasons);

// Everything else. Waits a moment for processes that cannot be stopped (vfork).
void check_unsupported(const Target &target, Reasons &reasons);

}  // namespace ckpt::tools
