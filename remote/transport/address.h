// SPDX-License-Identifier: Apache-2.0
//
// Where a ckpt-devd listens: "HOST", "HOST:PORT", "[IPv6]:PORT", or the path of a UNIX socket.
#pragma once

#include <chrono>
#include <string>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::remote {

inline constexpr u16 kPort = 7667;
inline constexpr const char *kNodeSocket = "/run/ckpt-devd.sock";

struct Address {
  std::string path;  // of a UNIX socket; empty: TCP
  std::string host;
  u16 port = kPort;

  static Result<Address> parse(const std::string &text);
  std::string text() const;
};

// Whether a host is an IPv4 or IPv6 address, and no name.
bool is_ip_address(const std::string &host);
Result<UniqueFd> connect_to(const Address &address, Clock::time_point deadline);
// On a TCP port.
Result<UniqueFd> listen_at(const Address &address);
// On a UNIX socket, for every user of the node; admission is by uid. Replaces the socket of a
// server that has ended.
Result<UniqueFd> listen_at_path(const std::string &path);
// Small frames are sent at once. While nothing is sent, a peer on a machine that has failed is
// noticed after about 20 s; otherwise the stream notices it (stream.h).
void set_up_tcp(int socket);

}  // namespace ckpt::remote
