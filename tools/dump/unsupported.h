// SPDX-License-Identifier: Apache-2.0
//
// State of processes that CRIU cannot dump, or dumps and cannot restore, found before anything is
// touched: kinds of sockets, System V memory, and more. Descriptors and other namespaces are in
// preflight.cc, connections in connections.h.
#pragma once

#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

void check_socket_kinds(const Target &target, Reasons &reasons);
void check_system_v_memory(const Target &target, Reasons &reasons);
// A process that called vfork(2) cannot be stopped until its child has called exec. Waits a moment.
void check_vfork(const Target &target, Reasons &reasons);
// One process of an MPI job whose mpirun is not in the program.
void check_mpi_rank(const Target &target, Reasons &reasons);

}  // namespace ckpt::tools
