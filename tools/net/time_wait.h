// SPDX-License-Identifier: Apache-2.0
//
// Connections in TIME-WAIT: closed, and kept by the kernel for a minute, so that a late packet of
// theirs is not taken for one of a new connection (RFC 9293, 3.6.1). If the program had not set
// SO_REUSEADDR, nobody can bind their port for that minute, and its restore would have to wait.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::tools {

// Ends those of this network namespace with this local port. False: there is none, or the kernel
// refuses it (CAP_NET_ADMIN, CONFIG_INET_DIAG_DESTROY).
bool end_time_wait(u16 port);

}  // namespace ckpt::tools
