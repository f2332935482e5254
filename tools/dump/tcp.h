// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::tools {

// The TCP connections in the network namespace of a process, by inode.
class TcpTable {
 public:
  explicit TcpTable(pid_t pid);
  // The peer of an established connection; null: it is none.
  const std::string *established(u64 inode) const {
    auto it = peers_.find(inode);
    return it == peers_.end() ? nullptr : &it->second;
  }

 private:
  std::map<u64, std::string> peers_;
};

}  // namespace ckpt::tools
