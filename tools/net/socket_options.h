// SPDX-License-Identifier: Apache-2.0
//
// The options of a socket (getsockopt(2)) and its multicast groups that CRIU does not keep
// (criu/sockets.c, criu/sk-inet.c). A dump reads those that differ from a new socket's, and a
// restore sets them again, both through a duplicate of the program's descriptor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::tools {

struct SocketGroup {
  std::string interface;
  std::string group;          // an address of IPv4 or IPv6
  bool only_sources = false;  // or all but these
  std::vector<std::string> sources;
  bool operator==(const SocketGroup &) const = default;
};

struct SocketState {
  std::map<std::string, i64> numbers;        // by the name of the option, such as "IP_RECVTTL"
  std::map<std::string, std::string> words;  // the same, such as TCP_CONGESTION
  std::vector<SocketGroup> groups;
  bool empty() const { return numbers.empty() && words.empty() && groups.empty(); }

  // `pid`: a process in the socket's network namespace.
  static SocketState of(int socket, int pid);
  // Returns the names of what could not be set here.
  std::vector<std::string> apply_to(int socket) const;
};

}  // namespace ckpt::tools
