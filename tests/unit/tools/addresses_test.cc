// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/addresses.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
namespace {

Endpoint ip(const std::string &address, u16 port) { return *Endpoint::parse(address, port); }

std::string instead(const std::string &change, const Endpoint &e, u32 number) {
  Result<Addresses> all = Addresses::parse({change});
  REQUIRE(all);
  std::optional<Endpoint> found = all->instead_of(e, number);
  return found ? found->text() : "-";
}

}  // namespace

TEST_CASE("a port becomes the port of the copy, at the same address") {
  CHECK(instead("8080=9001-9004", ip("127.0.0.1", 8080), 1) == "127.0.0.1 port 9001");
  CHECK(instead("8080=9001-9004", ip("::1", 8080), 4) == ip("::1", 9004).text());
  CHECK(instead("8080=9001", ip("0.0.0.0", 8080), 3) == "0.0.0.0 port 9001");
  CHECK(instead("8080=9001", ip("127.0.0.1", 8081), 1) == "-");
}

TEST_CASE("an address chooses the sockets that have it") {
  CHECK(instead("127.0.0.1:80=10.0.0.2:81", ip("127.0.0.1", 80), 1) == "10.0.0.2 port 81");
  CHECK(instead("127.0.0.1:80=10.0.0.2:81", ip("0.0.0.0", 80), 1) == "-");
  CHECK(instead("[::1]:80=[::2]:81-83", ip("::1", 80), 3) == ip("::2", 83).text());
  CHECK(instead("80=10.0.0.2:81", ip("::1", 80), 1) == "-");  // of another family
}

TEST_CASE("names of UNIX sockets have the number of the copy") {
  Result<Addresses> all = Addresses::parse({"/run/a=/run/a-%n-%n", "@x=@y"});
  REQUIRE(all);
  CHECK(all->instead_of("/run/a", 12) == "/run/a-12-12");
  CHECK(all->instead_of("@x", 1) == "@y");
  CHECK_FALSE(all->instead_of("/run/b", 1));
  CHECK_FALSE(all->instead_of("", 1));
}

TEST_CASE("what is no change of an address is refused") {
  for (const std::string &text :
       {std::string("8080"), std::string("8080="), std::string("=1"), std::string("0=1"),
        std::string("1=0"), std::string("1=2-1"), std::string("1=70000"), std::string("x:1=2"),
        std::string("1=/run/a"), std::string("/run/a=@a"), std::string("127.0.0.1:1=[::1]:1"),
        "/run/a=/" + std::string(100, 'x')})
    CHECK_FALSE(Addresses::parse({text}));
}

}  // namespace ckpt::test
