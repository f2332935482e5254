// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/peer_source.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/ipc/unix_socket.h"

namespace ckpt {
namespace {

std::string text_of(int family, const void *address) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family, address, text, sizeof text);
  return text;
}

std::string network_of(in6_addr a) {
  if (IN6_IS_ADDR_V4MAPPED(&a)) return text_of(AF_INET, &a.s6_addr[12]);
  std::fill_n(&a.s6_addr[8], 8, u8{0});
  return text_of(AF_INET6, &a) + "/64";
}

}  // namespace

std::string source_of(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr *>(&peer), &size) < 0) return "unknown";
  if (peer.ss_family == AF_INET)
    return text_of(AF_INET, &reinterpret_cast<const sockaddr_in &>(peer).sin_addr);
  if (peer.ss_family == AF_INET6)
    return network_of(reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr);
  Result<ucred> user = peer_credentials(socket);
  return user ? fmt::format("uid {}", user->uid) : "unknown";
}

}  // namespace ckpt
