// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/unique_fd.h"

namespace ckpt::test {

// A listener on a free port of the loopback, and its address.
inline std::pair<UniqueFd, sockaddr_in> tcp_listener() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof a;
  auto *address = reinterpret_cast<sockaddr *>(&a);
  REQUIRE(::bind(listener.get(), address, n) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), address, &n) == 0);
  return {std::move(listener), a};
}

// The two ends of a TCP connection on this machine: the one that has connected, and the accepted
// one.
inline std::pair<UniqueFd, UniqueFd> tcp_pair() {
  auto [listener, a] = tcp_listener();
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr *>(&a), sizeof a) == 0);
  UniqueFd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(server);
  return {std::move(client), std::move(server)};
}

}  // namespace ckpt::test
