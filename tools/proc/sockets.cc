// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/sockets.h"

#include <fstream>
#include <map>
#include <sstream>

#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

constexpr unsigned kListening = 0x10000;  // __SO_ACCEPTCON, in the column "Flags" of /proc/net/unix

std::map<u64, std::string> listening_by_inode(pid_t pid) {
  std::map<u64, std::string> found;
  std::ifstream in("/proc/" + std::to_string(pid) + "/net/unix");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string number, references, protocol, type, state, path;
    unsigned flags = 0;
    u64 inode = 0;
    fields >> number >> references >> protocol >> std::hex >> flags >> type >> state >> std::dec >>
        inode >> path;
    if ((flags & kListening) && path.starts_with('/')) found[inode] = path;
  }
  return found;
}

}  // namespace

std::vector<std::string> listening_sockets(pid_t pid, const std::string &prefix) {
  std::vector<std::string> paths;
  std::map<u64, std::string> listening = listening_by_inode(pid);
  for (const Descriptor &d : descriptors_of(pid)) {
    auto it = d.kind == Descriptor::Kind::Socket ? listening.find(d.inode) : listening.end();
    if (it == listening.end()) continue;
    if (it->second.substr(it->second.rfind('/') + 1).starts_with(prefix))
      paths.push_back(it->second);
  }
  return paths;
}

}  // namespace ckpt::tools
