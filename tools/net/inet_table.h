// SPDX-License-Identifier: Apache-2.0
//
// The TCP and UDP sockets of a network namespace, as /proc/PID/net/tcp, tcp6, udp and udp6 show
// them.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::tools {

// An address and a port. An IPv4 address that an IPv6 socket uses ("::ffff:127.0.0.1") counts as
// IPv4, because that is what its packets are, and how the other end names it.
struct Endpoint {
  bool v6 = false;
  std::array<u8, 16> address{};  // in network byte order; of IPv4 the first four bytes
  u16 port = 0;

  // "127.0.0.1 port 80"
  std::string text() const;
  // "127.0.0.1"
  std::string address_text() const;
  // From address_text() and a port. Empty if the text is not an address.
  static std::optional<Endpoint> parse(const std::string &address, u16 port);
  // NOLINTNEXTLINE(modernize-use-nullptr): a false report of clang-tidy 14
  auto operator<=>(const Endpoint &) const = default;
};

enum class InetProtocol { Tcp, Udp };

struct InetSocket {
  // include/net/tcp_states.h of Linux
  enum State : unsigned {
    Established = 1,
    SynSent = 2,
    SynReceived = 3,
    FinWait2 = 5,
    TimeWait = 6,
    Close = 7,
    CloseWait = 8,
    Listen = 10,
  };

  u64 inode = 0;  // 0: no process has it open, the kernel is still closing it
  bool v6 = false;
  unsigned state = 0;
  Endpoint local, remote;
  u64 unaccepted = 0;  // of a listening socket: connections that wait for accept(2)

  // Of TCP: has another end, or had one.
  bool connected() const { return state != Listen && state != Close; }
};

// From the text of such a file; malformed lines are left out. `v6`: of tcp6 or udp6.
std::vector<InetSocket> parse_inet_table(std::string_view text, bool v6);
// All of the network namespace of `pid`.
std::vector<InetSocket> inet_sockets(pid_t pid, InetProtocol protocol);

}  // namespace ckpt::tools
