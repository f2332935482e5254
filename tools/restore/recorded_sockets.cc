// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/recorded_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "tools/net/closed_connections.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kSocketPatience = 3s;  // for all sockets together
constexpr auto kSocketPoll = 50ms;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

// `v6`: for an IPv6 socket, which names an IPv4 address as "::ffff:127.0.0.1".
Address address_of(const Endpoint &e, bool v6) {
  Address a;
  if (!v6) {
    auto *in = reinterpret_cast<sockaddr_in *>(&a.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(e.port);
    std::memcpy(&in->sin_addr, e.address.data(), sizeof in->sin_addr);
    a.size = sizeof *in;
    return a;
  }
  auto *in = reinterpret_cast<sockaddr_in6 *>(&a.storage);
  in->sin6_family = AF_INET6;
  in->sin6_port = htons(e.port);
  std::string text = e.v6 ? e.address_text() : "::ffff:" + e.address_text();
  ::inet_pton(AF_INET6, text.c_str(), &in->sin6_addr);
  a.size = sizeof *in;
  return a;
}

void turn_on(int socket, int level, int option) {
  int on = 1;
  ::setsockopt(socket, level, option, &on, sizeof on);
}

// Returns errno. As CRIU does (criu/sk-inet.c, soccr/soccr.c): a connection is made in repair mode,
// in which no packet leaves the machine, and everything else is bound with SO_REUSEADDR.
int try_out(const ImageManifest::Socket &s) {
  int type = s.protocol == InetProtocol::Udp ? SOCK_DGRAM : SOCK_STREAM;
  UniqueFd socket(::socket(s.v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  turn_on(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  if (s.remote) turn_on(socket.get(), IPPROTO_TCP, TCP_REPAIR);
  Address local = address_of(s.local, s.v6);
  if (::bind(socket.get(), local.get(), local.size) < 0) return errno;
  if (!s.remote) return 0;
  Address remote = address_of(*s.remote, s.v6);
  return ::connect(socket.get(), remote.get(), remote.size) < 0 ? errno : 0;
}

bool has_address(const ImageManifest::Socket &s) {
  Endpoint any_port = s.local;
  any_port.port = 0;
  return try_out({.protocol = s.protocol, .v6 = s.v6, .local = any_port, .remote = {}}) == 0;
}

// Returns errno. The copy of a restore that was killed a moment ago ends by itself; until then it
// has the port.
int try_out_until(const ImageManifest::Socket &s, Clock::time_point end) {
  for (;;) {
    int error = try_out(s);
    if (error && end_closed_connections(s.local, s.remote)) error = try_out(s);
    bool taken = error == EADDRINUSE || (error == EADDRNOTAVAIL && has_address(s));
    if (!taken || Clock::now() > end) return error;
    std::this_thread::sleep_for(kSocketPoll);
  }
}

std::string refused(const ImageManifest::Socket &s, int error) {
  const char *protocol = s.protocol == InetProtocol::Udp ? "UDP" : "TCP";
  if (error == EADDRNOTAVAIL && !s.remote)
    return fmt::format(
        "the program uses {} {}, which is not an address of this machine: add it (ip address add), "
        "or restore on a machine that has it",
        protocol, s.local.text());
  if (s.remote)
    return fmt::format(
        "the program's TCP connection from {} to {} cannot be made here ({}): end "
        "the program that has it now (ss -tnp shows it), and add the address where "
        "it is missing",
        s.local.text(), s.remote->text(), std::strerror(error));
  return fmt::format(
      "the program uses {} {}, which is not available here ({}): end the program that has it now "
      "(ss -tunlp shows it)",
      protocol, s.local.text(), std::strerror(error));
}

}  // namespace

void check_sockets(const ImageManifest &m, Reasons &reasons) {
  auto end = Clock::now() + kSocketPatience;
  for (const ImageManifest::Socket &s : m.sockets)
    if (int error = try_out_until(s, end)) reasons.push_back(refused(s, error));
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  if (flows_of(m).empty()) return;
  if (Result<ConnectionLock> lock = ConnectionLock::take({}); !lock)
    reasons.push_back(fmt::format(
        "the program has TCP connections: their packets must be stopped during a restore, and {}",
        ConnectionLock::advice(lock.error())));
}

std::set<u16> ports_of(const ImageManifest &m) {
  std::set<u16> ports;
  for (const ImageManifest::Socket &s : m.sockets) ports.insert(s.local.port);
  return ports;
}

std::vector<PacketFlow> flows_of(const ImageManifest &m) {
  std::vector<PacketFlow> flows;
  for (const ImageManifest::Socket &s : m.sockets)
    if (s.remote) flows.push_back({*s.remote, s.local});
  return flows;
}

}  // namespace ckpt::tools
