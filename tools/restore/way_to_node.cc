// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/way_to_node.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "remote/transport/address.h"

namespace ckpt::tools {
namespace {

constexpr std::chrono::seconds kMostTime{10};

}  // namespace

Result<double> round_trip_to(const std::string &host) {
  CKPT_TRY(remote::Address address, remote::Address::parse(host));
  if (!address.path.empty())
    return fail("a socket of this node has no round trip that the kernel measures");
  CKPT_TRY(UniqueFd socket, remote::connect_to(address, Clock::now() + kMostTime));
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
    return fail_errno("cannot read the round trip to {}", host);
  return static_cast<double>(info.tcpi_rtt) / 1e6;
}

}  // namespace ckpt::tools
