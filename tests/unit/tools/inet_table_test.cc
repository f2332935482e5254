// SPDX-License-Identifier: Apache-2.0
#include "tools/net/inet_table.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "common/base/unique_fd.h"
#include "tests/unit/common/tcp_pair.h"

namespace ckpt::test {
using namespace tools;
namespace {

// Lines of Linux 6.18, with the columns up to the inode.
constexpr std::string_view kHeading =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";
constexpr std::string_view kListening =
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 "
    "4711 1 0000000000000000 100 0 0 10 0\n";
constexpr std::string_view kConnected =
    "   1: 0100007F:C350 0200000A:0050 01 00000000:00000000 00:00000000 00000000     0        0 "
    "4712 1 0000000000000000 20 4 30 10 -1\n";
constexpr std::string_view kConnected6 =
    "   0: 00000000000000000000000001000000:0016 B80D0120000000000000000002000000:FFFF 08 "
    "00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 20 4 30 10 -1\n";
constexpr std::string_view kMapped =
    "   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200000A:0050 01 "
    "00000000:00000000 00:00000000 00000000     0        0 4714 1 0000000000000000 20 4 30 10 -1\n";

std::vector<InetSocket> parse(std::string_view lines, bool v6 = false) {
  return parse_inet_table(std::string(kHeading) + std::string(lines), v6);
}

InetSocket only(std::string_view line, bool v6 = false) {
  std::vector<InetSocket> all = parse(line, v6);
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("a listening socket has the connections that wait for accept(2)") {
  InetSocket s = only(kListening);
  CHECK(s.inode == 4711);
  CHECK(s.state == InetSocket::Listen);
  CHECK_FALSE(s.connected());
  CHECK(s.local.text() == "127.0.0.1 port 8080");
  CHECK(s.unaccepted == 3);
}

TEST_CASE("a connection has two ends") {
  InetSocket s = only(kConnected);
  CHECK(s.connected());
  CHECK(s.local.text() == "127.0.0.1 port 50000");
  CHECK(s.remote.text() == "10.0.0.2 port 80");
  CHECK(s.unaccepted == 0);
}

TEST_CASE("addresses of IPv6 are read in the byte order of the host, word by word") {
  InetSocket s = only(kConnected6, true);
  CHECK(s.v6);
  CHECK(s.state == InetSocket::CloseWait);
  CHECK(s.local.address_text() == "::1");
  CHECK(s.remote.address_text() == "2001:db8::2");
  CHECK(s.remote.port == 65535);
}

TEST_CASE("an IPv4 address of an IPv6 socket counts as IPv4, as the other end names it") {
  InetSocket here = only(kMapped, true), there = only(kConnected);
  CHECK(here.v6);
  CHECK_FALSE(here.local.v6);
  CHECK(here.remote == there.remote);
  CHECK(here.local.address_text() == "127.0.0.1");
}

TEST_CASE("lines that are no socket are left out") {
  CHECK(parse("").empty());
  CHECK(parse_inet_table("", false).empty());
  CHECK(parse("\n   0: \n junk\n").empty());
  // Cut off before the inode.
  CHECK(parse(kConnected.substr(0, 90)).empty());
  CHECK(parse(std::string("junk\n") + std::string(kConnected)).size() == 1);
  std::string all = std::string(kListening) + std::string(kConnected);
  CHECK(parse(all).size() == 2);
}

TEST_CASE("an address survives its text; other texts are none") {
  for (const char *text : {"127.0.0.1", "0.0.0.0", "::", "2001:db8::2"}) {
    std::optional<Endpoint> e = Endpoint::parse(text, 7);
    REQUIRE(e);
    CHECK(e->address_text() == text);
  }
  for (const char *text : {"", "localhost", "1.2.3", "1.2.3.4.5", "::g", "127.0.0.1:80"})
    CHECK_FALSE(Endpoint::parse(text, 7));
}

TEST_CASE("this process's own listener is found, and so is its port") {
  auto [listener, address] = tcp_listener();
  bool found = false;
  for (const InetSocket &s : inet_sockets(::getpid(), InetProtocol::Tcp))
    found |= s.state == InetSocket::Listen && s.local.port == ntohs(address.sin_port);
  CHECK(found);
}

}  // namespace ckpt::test
