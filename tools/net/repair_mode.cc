// SPDX-License-Identifier: Apache-2.0
#include "tools/net/repair_mode.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <functional>
#include <set>

#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

// Calls `f` with each socket of the processes, once, and its inode. Of all kinds: CRIU also leaves
// connections in repair mode that are closed, which no table of the kernel lists.
void for_each_socket(const std::vector<Process> &processes,
                     const std::function<void(int socket, u64 inode)> &f) {
  std::set<u64> done;
  for (const Process &p : processes)
    for (const Descriptor &d : descriptors_of(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !done.insert(d.inode).second) continue;
      if (UniqueFd socket = duplicate_descriptor(p.pid, d.fd)) f(socket.get(), d.inode);
    }
}

int option(int socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, level, name, &value, &size) == 0 ? value : 0;
}

}  // namespace

ReuseOfSockets reuse_of_sockets(const std::vector<Process> &processes) {
  ReuseOfSockets all;
  for_each_socket(processes, [&](int socket, u64 inode) {
    all[inode] = option(socket, SOL_SOCKET, SO_REUSEADDR);
  });
  return all;
}

void leave_repair_mode(const std::vector<Process> &processes, const ReuseOfSockets &reuse) {
  for_each_socket(processes, [&](int socket, u64 inode) {
    if (option(socket, IPPROTO_TCP, TCP_REPAIR) == 0) return;
    auto known = reuse.find(inode);
    int off = 0, value = known == reuse.end() ? 1 : known->second;
    ::setsockopt(socket, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off);
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value);
  });
}

}  // namespace ckpt::tools
