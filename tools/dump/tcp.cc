// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/tcp.h"

#include <arpa/inet.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

constexpr unsigned kListen = 10, kClose = 7;  // include/net/tcp_states.h

// Parses "0100007F:0016": the address as 32-bit words in host byte order, and the port.
std::string readable(const std::string &field) {
  size_t colon = field.find(':');
  std::string hex = field.substr(0, colon);
  u32 words[4]{};
  for (size_t i = 0; i < hex.size() / 8 && i < 4; i++)
    words[i] = static_cast<u32>(std::stoul(hex.substr(i * 8, 8), nullptr, 16));
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(hex.size() == 8 ? AF_INET : AF_INET6, words, text, sizeof text);
  return fmt::format("{} port {}", text, std::stoul(field.substr(colon + 1), nullptr, 16));
}

}  // namespace

TcpTable::TcpTable(pid_t pid) {
  for (const char *file : {"tcp", "tcp6"}) {
    std::ifstream in(fmt::format("/proc/{}/net/{}", pid, file));
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, queues, timer, retransmits, uid, timeout;
      unsigned state = 0;
      u64 inode = 0;
      fields >> number >> local >> remote >> std::hex >> state >> std::dec >> queues >> timer >>
          retransmits >> uid >> timeout >> inode;
      if (fields && state != kListen && state != kClose && inode) peers_[inode] = readable(remote);
    }
  }
}

}  // namespace ckpt::tools
