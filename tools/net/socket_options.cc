// SPDX-License-Identifier: Apache-2.0
#include "tools/net/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <optional>

#include "common/base/unique_fd.h"
#include "tools/net/multicast.h"

namespace ckpt::tools {
namespace {

struct KeptOption {
  const char *name;
  int level, number;
  bool is_word = false;
};

// Numbers that the C library lacks are from the kernel's headers (asm-generic/socket.h, linux/in.h,
// linux/in6.h, linux/tcp.h, linux/udp.h).
constexpr KeptOption kOptions[] = {
    {"SO_TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP},
    {"SO_TIMESTAMPNS", SOL_SOCKET, SO_TIMESTAMPNS},
    {"SO_TIMESTAMP_NEW", SOL_SOCKET, 63},
    {"SO_TIMESTAMPNS_NEW", SOL_SOCKET, 64},
    {"SO_TIMESTAMPING", SOL_SOCKET, SO_TIMESTAMPING},
    {"SO_RXQ_OVFL", SOL_SOCKET, SO_RXQ_OVFL},
    {"SO_SELECT_ERR_QUEUE", SOL_SOCKET, SO_SELECT_ERR_QUEUE},
    {"SO_PEEK_OFF", SOL_SOCKET, SO_PEEK_OFF},
    {"SO_BUSY_POLL", SOL_SOCKET, SO_BUSY_POLL},
    {"SO_ZEROCOPY", SOL_SOCKET, SO_ZEROCOPY},
    {"SO_PASSPIDFD", SOL_SOCKET, 76},
    {"IP_RECVOPTS", IPPROTO_IP, IP_RECVOPTS},
    {"IP_RETOPTS", IPPROTO_IP, IP_RETOPTS},
    {"IP_MTU_DISCOVER", IPPROTO_IP, IP_MTU_DISCOVER},
    {"IP_RECVERR", IPPROTO_IP, IP_RECVERR},
    {"IP_RECVTTL", IPPROTO_IP, IP_RECVTTL},
    {"IP_RECVTOS", IPPROTO_IP, IP_RECVTOS},
    {"IP_TRANSPARENT", IPPROTO_IP, IP_TRANSPARENT},
    {"IP_RECVORIGDSTADDR", IPPROTO_IP, IP_RECVORIGDSTADDR},
    {"IP_MINTTL", IPPROTO_IP, IP_MINTTL},
    {"IP_NODEFRAG", IPPROTO_IP, IP_NODEFRAG},
    {"IP_CHECKSUM", IPPROTO_IP, IP_CHECKSUM},
    {"IP_BIND_ADDRESS_NO_PORT", IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT},
    {"IP_RECVFRAGSIZE", IPPROTO_IP, IP_RECVFRAGSIZE},
    {"IP_RECVERR_RFC4884", IPPROTO_IP, 26},
    {"IP_MULTICAST_IF", IPPROTO_IP, IP_MULTICAST_IF},
    {"IP_MULTICAST_TTL", IPPROTO_IP, IP_MULTICAST_TTL},
    {"IP_MULTICAST_LOOP", IPPROTO_IP, IP_MULTICAST_LOOP},
    {"IP_MULTICAST_ALL", IPPROTO_IP, IP_MULTICAST_ALL},
    {"IP_UNICAST_IF", IPPROTO_IP, IP_UNICAST_IF},
    {"IP_LOCAL_PORT_RANGE", IPPROTO_IP, 51},
    {"IPV6_UNICAST_HOPS", IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {"IPV6_MULTICAST_IF", IPPROTO_IPV6, IPV6_MULTICAST_IF},
    {"IPV6_MULTICAST_HOPS", IPPROTO_IPV6, IPV6_MULTICAST_HOPS},
    {"IPV6_MULTICAST_LOOP", IPPROTO_IPV6, IPV6_MULTICAST_LOOP},
    {"IPV6_MULTICAST_ALL", IPPROTO_IPV6, 29},
    {"IPV6_MTU_DISCOVER", IPPROTO_IPV6, IPV6_MTU_DISCOVER},
    {"IPV6_RECVERR", IPPROTO_IPV6, IPV6_RECVERR},
    {"IPV6_RECVHOPLIMIT", IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
    {"IPV6_RECVHOPOPTS", IPPROTO_IPV6, IPV6_RECVHOPOPTS},
    {"IPV6_RECVRTHDR", IPPROTO_IPV6, IPV6_RECVRTHDR},
    {"IPV6_RECVDSTOPTS", IPPROTO_IPV6, IPV6_RECVDSTOPTS},
    {"IPV6_RECVPATHMTU", IPPROTO_IPV6, IPV6_RECVPATHMTU},
    {"IPV6_DONTFRAG", IPPROTO_IPV6, IPV6_DONTFRAG},
    {"IPV6_RECVTCLASS", IPPROTO_IPV6, IPV6_RECVTCLASS},
    {"IPV6_TCLASS", IPPROTO_IPV6, IPV6_TCLASS},
    {"IPV6_FLOWINFO", IPPROTO_IPV6, 11},
    {"IPV6_FLOWINFO_SEND", IPPROTO_IPV6, 33},
    {"IPV6_AUTOFLOWLABEL", IPPROTO_IPV6, 70},
    {"IPV6_ADDR_PREFERENCES", IPPROTO_IPV6, 72},
    {"IPV6_MINHOPCOUNT", IPPROTO_IPV6, 73},
    {"IPV6_RECVORIGDSTADDR", IPPROTO_IPV6, 74},
    {"IPV6_UNICAST_IF", IPPROTO_IPV6, 76},
    {"IPV6_RECVFRAGSIZE", IPPROTO_IPV6, 77},
    {"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT},
    {"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2},
    {"TCP_DEFER_ACCEPT", IPPROTO_TCP, TCP_DEFER_ACCEPT},
    {"TCP_CONGESTION", IPPROTO_TCP, TCP_CONGESTION, true},
    {"TCP_THIN_LINEAR_TIMEOUTS", IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS},
    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT},
    {"TCP_FASTOPEN", IPPROTO_TCP, TCP_FASTOPEN},
    {"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {"TCP_SAVE_SYN", IPPROTO_TCP, TCP_SAVE_SYN},
    {"TCP_FASTOPEN_CONNECT", IPPROTO_TCP, TCP_FASTOPEN_CONNECT},
    {"TCP_FASTOPEN_NO_COOKIE", IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE},
    {"TCP_INQ", IPPROTO_TCP, TCP_INQ},
    {"TCP_TX_DELAY", IPPROTO_TCP, TCP_TX_DELAY},
    {"UDP_NO_CHECK6_TX", IPPROTO_UDP, 101},
    {"UDP_NO_CHECK6_RX", IPPROTO_UDP, 102},
    {"UDP_SEGMENT", IPPROTO_UDP, UDP_SEGMENT},
    {"UDP_GRO", IPPROTO_UDP, UDP_GRO},
};

constexpr size_t kMostValueBytes = 32;  // of the value of an option

std::optional<std::string> value_of(int socket, const KeptOption &o) {
  char value[kMostValueBytes] = {};
  socklen_t size = o.is_word ? sizeof value : sizeof(int);
  if (::getsockopt(socket, o.level, o.number, value, &size) < 0) return std::nullopt;
  return std::string(value, o.is_word ? ::strnlen(value, size) : sizeof(int));
}

int number(int socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, SOL_SOCKET, option, &value, &size);
  return value;
}

// Another socket of the same kind, with all options as a new one has them.
UniqueFd new_socket_like(int socket) {
  int family = number(socket, SO_DOMAIN), type = number(socket, SO_TYPE);
  if (family != AF_UNIX && family != AF_INET && family != AF_INET6) return {};
  int protocol = family == AF_UNIX ? 0 : number(socket, SO_PROTOCOL);
  return UniqueFd(::socket(family, type | SOCK_CLOEXEC, protocol));
}

// Of a stream they cannot be set (do_ip_setsockopt() in the kernel's ipv4/ip_sockglue.c, and its
// like of IPv6). An accepted connection has the hop limit of the other end's packet there.
bool is_for_datagrams(const KeptOption &o) {
  return std::string_view(o.name).find("_MULTICAST_") != std::string_view::npos;
}

i64 as_number(const std::string &value) {
  int n = 0;
  std::memcpy(&n, value.data(), sizeof n);
  return n;
}

bool set(int socket, const KeptOption &o, const std::string &value) {
  if (value_of(socket, o) == value) return true;
  return ::setsockopt(socket, o.level, o.number, value.data(),
                      static_cast<socklen_t>(value.size())) == 0;
}

}  // namespace

SocketState SocketState::of(int socket, int pid) {
  SocketState state;
  UniqueFd fresh = new_socket_like(socket);
  if (!fresh) return state;
  bool stream = number(socket, SO_TYPE) == SOCK_STREAM;
  for (const KeptOption &o : kOptions) {
    if (stream && is_for_datagrams(o)) continue;
    std::optional<std::string> value = value_of(socket, o);
    if (!value || value == value_of(fresh.get(), o)) continue;
    if (o.is_word)
      state.words[o.name] = *value;
    else
      state.numbers[o.name] = as_number(*value);
  }
  state.groups = groups_of(socket, pid);
  return state;
}

std::vector<std::string> SocketState::apply_to(int socket) const {
  std::vector<std::string> failed;
  for (const KeptOption &o : kOptions) {
    auto word = words.find(o.name);
    auto n = numbers.find(o.name);
    std::optional<std::string> value;
    if (o.is_word && word != words.end()) value = word->second;
    if (!o.is_word && n != numbers.end()) {
      int as_int = static_cast<int>(n->second);
      value = std::string(reinterpret_cast<const char *>(&as_int), sizeof as_int);
    }
    if (value && !set(socket, o, *value)) failed.push_back(o.name);
  }
  for (const SocketGroup &g : groups)
    if (!join_group(socket, g)) failed.push_back("the multicast group " + g.group);
  return failed;
}

}  // namespace ckpt::tools
