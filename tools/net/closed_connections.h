// SPDX-License-Identifier: Apache-2.0
//
// Connections that no process has any more, but which the kernel keeps, and which can prevent the
// restore of a program:
//
//   TIME-WAIT   The kernel keeps a closed connection for a minute, so that its late packets are
//               not taken for those of a new one (RFC 9293, 3.6.1). If the program had not set
//               SO_REUSEADDR, its port cannot be bound for that minute.
//   unfinished  A restore has failed and its copy was ended. The kernel still tries to tell the
//               other end of the copy's connection.
#pragma once

#include <optional>

#include "tools/net/inet_table.h"

namespace ckpt::tools {

// Ends those of this network namespace. False: there is none, or the kernel refuses it
// (CAP_NET_ADMIN, CONFIG_INET_DIAG_DESTROY).
bool end_closed_connections(const Endpoint &local, const std::optional<Endpoint> &remote);

}  // namespace ckpt::tools
