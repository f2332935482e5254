// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

namespace ckpt {

// To be called before connect(2). The kernel chooses a port for this end; then a program can still
// listen on the same port with SO_REUSEADDR, as each that CRIU restores does (socket(7)). Without
// this, it cannot while the connection exists, and for a minute after it.
inline void share_local_port(int socket) {
  int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

}  // namespace ckpt
