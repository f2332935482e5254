// SPDX-License-Identifier: Apache-2.0
//
// State of processes that CRIU cannot dump, or dumps and cannot restore, found before anything is
// touched: kinds of sockets, memory that others can change, and more. Descriptors and other
// namespaces are in preflight.cc, connections in connections.h.
#pragma once

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Main threads that have ended while others run. CRIU and all other checks read a process through
// its main thread, so this check comes first, and its refusal is the only one.
void check_main_threads(const Target &target, Reasons &reasons);

// Kinds of sockets that CRIU cannot dump.
void check_socket_kinds(const Target &target, Closables &reasons);

// Whether a process waits for a child that has its memory (vfork(2), posix_spawn(3)).
bool waits_in_vfork(pid_t pid);

// Everything else. Waits a moment for processes that cannot be stopped (vfork).
void check_unsupported(const Target &target, Reasons &reasons);

// Landlock's rules end with a restore, and nothing shows them. Remarks on processes that may have
// restricted themselves by it.
void remark_landlock(const Target &target, std::vector<std::string> &remarks);

}  // namespace ckpt::tools
