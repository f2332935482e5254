// SPDX-License-Identifier: Apache-2.0
#include "tools/job/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/words.h"
#include "common/ipc/local_port.h"
#include "common/proc/file.h"
#include "tools/net/inet_table.h"

namespace ckpt::tools {
namespace {

constexpr unsigned kLastPort = 65535;

// One socket for IPv6 and IPv4 (ipv6(7), IPV6_V6ONLY), or for IPv4 where the kernel has no IPv6.
UniqueFd new_socket(int &family) {
  family = AF_INET6;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int off = 0;
  if (fd && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) return fd;
  family = AF_INET;
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Empty: none by which another node could connect.
std::string usable_address(const ifaddrs &i) {
  if (!i.ifa_addr || !(i.ifa_flags & IFF_UP)) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (i.ifa_addr->sa_family == AF_INET) {
    const auto *in = reinterpret_cast<const sockaddr_in *>(i.ifa_addr);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
  } else if (i.ifa_addr->sa_family == AF_INET6) {
    const auto *in = reinterpret_cast<const sockaddr_in6 *>(i.ifa_addr);
    if (!IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr))  // would need the name of an interface
      ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
  }
  return text;
}

Result<> wait_connected(int socket, std::chrono::milliseconds timeout) {
  pollfd p{socket, POLLOUT, 0};
  int ready = ::poll(&p, 1, static_cast<int>(timeout.count()));
  int error = ready == 0 ? ETIMEDOUT : ready < 0 ? errno : 0;
  socklen_t size = sizeof error;
  if (ready > 0) ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error ? fail_errno("cannot connect") : Result<>{};
}

// The first port above those that the kernel chooses by itself (ip(7), ip_local_port_range).
unsigned first_unused_port() {
  std::string range = proc::text_of_machine("sys/net/ipv4/ip_local_port_range");
  std::string_view last(range);
  next_word(last);
  return leading_number(last, unsigned{kLastPort}) + 1;
}

// `port` 0: the kernel chooses. Without a result, `error` is errno.
std::optional<std::pair<UniqueFd, u16>> listen_on(u16 port, int &error) {
  int family = 0;
  UniqueFd fd = new_socket(family);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  sockaddr_in in4{};
  in4.sin_family = AF_INET;
  in6.sin6_port = in4.sin_port = htons(port);
  auto *any =
      family == AF_INET6 ? reinterpret_cast<sockaddr *>(&in6) : reinterpret_cast<sockaddr *>(&in4);
  socklen_t size = family == AF_INET6 ? sizeof in6 : sizeof in4;
  constexpr int kBacklog = 16;
  bool listens = fd && ::bind(fd.get(), any, size) == 0 && ::listen(fd.get(), kBacklog) == 0 &&
                 ::getsockname(fd.get(), any, &size) == 0;
  error = listens ? 0 : errno;
  if (!listens) return std::nullopt;
  return std::pair(std::move(fd), ntohs(family == AF_INET6 ? in6.sin6_port : in4.sin_port));
}

}  // namespace

Result<std::pair<UniqueFd, u16>> listen_tcp(const std::set<u16> &needed) {
  int error = EADDRINUSE;
  for (unsigned port = first_unused_port(); port <= kLastPort && error == EADDRINUSE; port++) {
    if (needed.contains(static_cast<u16>(port))) continue;
    if (auto listening = listen_on(static_cast<u16>(port), error)) return std::move(*listening);
  }
  // A port that must not be used stays bound until another one is found.
  std::vector<UniqueFd> unusable;
  while (auto listening = listen_on(0, error)) {
    if (!needed.contains(listening->second)) return std::move(*listening);
    unusable.push_back(std::move(listening->first));
  }
  errno = error;
  return fail_errno("cannot listen on a TCP port");
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> all, loopback;
  ifaddrs *list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (ifaddrs *i = list; i; i = i->ifa_next)
    if (std::string a = usable_address(*i); !a.empty())
      (i->ifa_flags & IFF_LOOPBACK ? loopback : all).push_back(std::move(a));
  ::freeifaddrs(list);
  all.insert(all.end(), loopback.begin(), loopback.end());
  constexpr size_t kMost = 32;
  if (all.size() > kMost) all.resize(kMost);
  return all;
}

Result<UniqueFd> connect_tcp(const std::string &address, u16 port,
                             std::chrono::milliseconds timeout) {
  std::optional<Endpoint> e = Endpoint::parse(address, port);
  if (!e) return fail("\"{}\" is not an address", address);
  int family = e->v6 ? AF_INET6 : AF_INET;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("cannot create a TCP socket");
  share_local_port(fd.get());
  sockaddr_in6 in6{};
  sockaddr_in in4{};
  in6.sin6_family = AF_INET6;
  in4.sin_family = AF_INET;
  in6.sin6_port = in4.sin_port = htons(port);
  std::memcpy(&in6.sin6_addr, e->address.data(), sizeof in6.sin6_addr);
  std::memcpy(&in4.sin_addr, e->address.data(), sizeof in4.sin_addr);
  auto *to = e->v6 ? reinterpret_cast<sockaddr *>(&in6) : reinterpret_cast<sockaddr *>(&in4);
  if (::connect(fd.get(), to, e->v6 ? sizeof in6 : sizeof in4) < 0) {
    if (errno != EINPROGRESS) return fail_errno("cannot connect");
    CKPT_CHECK(wait_connected(fd.get(), timeout));
  }
  if (::fcntl(fd.get(), F_SETFL, 0) < 0) return fail_errno("cannot make a socket blocking");
  return fd;
}

}  // namespace ckpt::tools
