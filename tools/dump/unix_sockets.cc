// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/unix_sockets.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

bool request_all_sockets(int fd) {
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header = {sizeof message, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0};
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = ~0u;
  message.request.udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_NAME;
  return ::send(fd, &message, sizeof message, 0) == sizeof message;
}

// "@name" for an abstract socket, as in ss(8).
std::string name_of(const rtattr *a) {
  const char *text = static_cast<const char *>(RTA_DATA(a));
  std::string name(text, RTA_PAYLOAD(a));
  while (!name.empty() && name.back() == '\0') name.pop_back();
  std::replace(name.begin(), name.end(), '\0', '@');
  return name;
}

}  // namespace

UnixPeers UnixPeers::read() {
  UnixPeers all;
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd || !request_all_sockets(fd.get())) return all;
  alignas(nlmsghdr) char buffer[64 << 10];
  for (;;) {
    ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return all;
    auto left = static_cast<unsigned>(got);
    for (auto *h = reinterpret_cast<nlmsghdr *>(buffer); NLMSG_OK(h, left);
         h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY) return all;  // done, or an error
      auto *m = static_cast<unix_diag_msg *>(NLMSG_DATA(h));
      int bytes = static_cast<int>(h->nlmsg_len - NLMSG_LENGTH(sizeof *m));
      for (auto *a = reinterpret_cast<rtattr *>(m + 1); RTA_OK(a, bytes); a = RTA_NEXT(a, bytes)) {
        u32 peer = 0;
        if (a->rta_type == UNIX_DIAG_NAME) all.names_[m->udiag_ino] = name_of(a);
        if (a->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(a) == sizeof peer) {
          std::memcpy(&peer, RTA_DATA(a), sizeof peer);
          all.peers_[m->udiag_ino] = peer;
        }
      }
    }
  }
}

}  // namespace ckpt::tools
