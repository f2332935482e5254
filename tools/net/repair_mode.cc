// SPDX-License-Identifier: Apache-2.0
#include "tools/net/repair_mode.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "common/base/unique_fd.h"
#include "tools/net/inet_table.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

UniqueFd descriptor_of(pid_t pid, int fd) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

// Calls `f` with each connection of the processes, once, and its inode.
void for_each_connection(const std::vector<Process> &processes,
                         const std::function<void(int socket, u64 inode)> &f) {
  std::set<u64> done;
  for (const Process &p : processes) {
    std::set<u64> connections;
    for (const InetSocket &s : inet_sockets(p.pid, InetProtocol::Tcp))
      if (s.connected() && s.inode) connections.insert(s.inode);
    if (connections.empty()) continue;
    for (const Descriptor &d : descriptors_of(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !connections.contains(d.inode) ||
          !done.insert(d.inode).second)
        continue;
      if (UniqueFd socket = descriptor_of(p.pid, d.fd)) f(socket.get(), d.inode);
    }
  }
}

int option(int socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, level, name, &value, &size) == 0 ? value : 0;
}

}  // namespace

ReuseOfSockets reuse_of_connections(const std::vector<Process> &processes) {
  ReuseOfSockets all;
  for_each_connection(processes, [&](int socket, u64 inode) {
    all[inode] = option(socket, SOL_SOCKET, SO_REUSEADDR);
  });
  return all;
}

void leave_repair_mode(const std::vector<Process> &processes, const ReuseOfSockets &reuse) {
  for_each_connection(processes, [&](int socket, u64 inode) {
    if (option(socket, IPPROTO_TCP, TCP_REPAIR) == 0) return;
    auto known = reuse.find(inode);
    int off = 0, value = known == reuse.end() ? 1 : known->second;
    ::setsockopt(socket, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off);
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value);
  });
}

}  // namespace ckpt::tools
