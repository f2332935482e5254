// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/metrics_address.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

using namespace ckpt;
using manager::MetricsAddress;

namespace {

// "-": it is refused.
std::string text_of(const std::string &text) {
  Result<MetricsAddress> address = MetricsAddress::parse(text);
  return address ? address->text : "-";
}

}  // namespace

TEST_CASE("metrics are served on this machine unless an address is named") {
  CHECK(text_of("9400") == "127.0.0.1:9400");
  CHECK(text_of("10.0.0.5:9400") == "10.0.0.5:9400");
  CHECK(text_of("0.0.0.0:1") == "0.0.0.0:1");
  CHECK(text_of("[fd00::5]:65535") == "[fd00::5]:65535");
}

TEST_CASE("the socket's address is that of the text") {
  Result<MetricsAddress> four = MetricsAddress::parse("10.0.0.5:9400");
  REQUIRE(four);
  const auto *in = reinterpret_cast<const sockaddr_in *>(&four->address);
  CHECK(in->sin_family == AF_INET);
  CHECK(ntohl(in->sin_addr.s_addr) == 0x0A000005);
  CHECK(ntohs(in->sin_port) == 9400);
  Result<MetricsAddress> six = MetricsAddress::parse("[::1]:9400");
  REQUIRE(six);
  const auto *in6 = reinterpret_cast<const sockaddr_in6 *>(&six->address);
  CHECK(in6->sin6_family == AF_INET6);
  CHECK(IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
  CHECK(ntohs(in6->sin6_port) == 9400);
}

TEST_CASE("anything else is no address for metrics") {
  for (const char *wrong : {"", ":", ":9400", "0", "65536", "-1", "9400x", "10.0.0.5",
                            "10.0.0.5:", "10.0.0.5:0", "10.0.0:9400", "localhost:9400", "::1:9400",
                            "[::1]", "[::1:9400", "[10.0.0.5]:9400", "[]:1"})
    CHECK_MESSAGE(text_of(wrong) == "-", wrong);
}
