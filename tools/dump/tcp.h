// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::tools {

// The TCP connections in the network namespace of a process, by the inode of their socket.
class TcpTable {
 public:
  explicit TcpTable(pid_t pid);
  // The peer's address, for a message; null if the socket is not a connection.
  const std::string *established(u64 inode) const {
    auto it = peers_.find(inode);
    return it == peers_.end() ? nullptr : &it->second;
  }

 private:
  std::map<u64, std::string> peers_;
};

}  // namespace ckpt::tools
