// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::tools {

// The peers of all connected UNIX sockets in our network namespace. /proc does not show them, but
// the kernel's socket diagnostics do (sock_diag(7)). In a kernel without these the table is empty.
class UnixPeers {
 public:
  static UnixPeers read();
  // The inode of the peer; 0 if the socket is not connected.
  u64 peer(u64 inode) const {
    auto it = peers_.find(inode);
    return it == peers_.end() ? 0 : it->second;
  }
  // The path that a socket is bound to, or "".
  std::string name(u64 inode) const {
    auto it = names_.find(inode);
    return it == names_.end() ? "" : it->second;
  }

 private:
  std::map<u64, u64> peers_;
  std::map<u64, std::string> names_;
};

}  // namespace ckpt::tools
