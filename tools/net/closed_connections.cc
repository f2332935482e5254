// SPDX-License-Identifier: Apache-2.0
#include "tools/net/closed_connections.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

// As `ss -K` does (sock_diag(7); SOCK_DESTROY of Linux 4.5).
bool destroy(int netlink, const InetSocket &s) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } m{};
  m.header.nlmsg_len = sizeof m;
  m.header.nlmsg_type = SOCK_DESTROY;
  m.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  // The table shows an IPv4 connection of an IPv6 socket by its IPv4 addresses.
  bool mapped = s.v6 && !s.local.v6;
  m.request.sdiag_family = s.v6 ? AF_INET6 : AF_INET;
  m.request.sdiag_protocol = IPPROTO_TCP;
  inet_diag_sockid &id = m.request.id;
  id.idiag_sport = htons(s.local.port);
  id.idiag_dport = htons(s.remote.port);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  auto set = [mapped](auto &to, const Endpoint &e) {
    if (mapped) to[2] = htonl(0xffff);
    std::memcpy(mapped ? &to[3] : &to[0], e.address.data(), e.v6 ? 16 : 4);
  };
  set(id.idiag_src, s.local);
  set(id.idiag_dst, s.remote);
  if (::send(netlink, &m, sizeof m, 0) < 0) return false;
  alignas(nlmsghdr) char answer[1024];
  ssize_t n = ::recv(netlink, answer, sizeof answer, 0);
  auto *h = reinterpret_cast<nlmsghdr *>(answer);
  return n > 0 && NLMSG_OK(h, static_cast<unsigned>(n)) && h->nlmsg_type == NLMSG_ERROR &&
         static_cast<nlmsgerr *>(NLMSG_DATA(h))->error == 0;
}

// Another program's connection that is not in TIME-WAIT may have bytes left to send.
bool in_the_way(const InetSocket &s, const Endpoint &local, const std::optional<Endpoint> &remote) {
  if (s.inode != 0) return false;
  if (s.state == InetSocket::TimeWait) return s.local.port == local.port;
  // One that is not accepted yet has no process either, but a listening socket.
  bool open = s.state == InetSocket::Established || s.state == InetSocket::SynReceived;
  return !open && remote && s.local == local && s.remote == *remote;
}

}  // namespace

bool end_closed_connections(const Endpoint &local, const std::optional<Endpoint> &remote) {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  bool any = false;
  for (const InetSocket &s : inet_sockets(::getpid(), InetProtocol::Tcp))
    if (netlink && in_the_way(s, local, remote)) any |= destroy(netlink.get(), s);
  return any;
}

}  // namespace ckpt::tools
