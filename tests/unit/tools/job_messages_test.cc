// SPDX-License-Identifier: Apache-2.0
#include "tools/job/messages.h"

#include <doctest/doctest.h>

#include "tools/job/job_folder.h"
#include "tools/job/match.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

Endpoint at(const char *address, u16 port) { return *Endpoint::parse(address, port); }

JobConnection connection(Endpoint from, Endpoint to, unsigned state = InetSocket::Established,
                         bool held = true) {
  return {from, to, static_cast<u8>(state), held, false, "process 1 (a): descriptor 3"};
}

const Endpoint kServer = at("10.0.0.1", 80), kClient = at("10.0.0.2", 5000);

}  // namespace

TEST_CASE("what is encoded is parsed again") {
  Begin b{Task::Restore, "node1", 7, true, "restore-x", 30};
  std::optional<Begin> again = parse_begin(encode(b));
  REQUIRE(again);
  CHECK(again->member == "node1");
  CHECK(again->checkpoint == 7);
  CHECK(again->stop);
  CHECK(again->task == Task::Restore);
  Reached r{Stage::Locked, "n", {connection(kServer, at("::1", 9))}, "{}"};
  r.connections[0].may_close = true;
  std::optional<Reached> reached = parse_reached(encode(r));
  REQUIRE(reached);
  CHECK(reached->connections.size() == 1);
  CHECK(reached->connections[0].remote == at("::1", 9));
  CHECK(reached->connections[0].may_close);
}

TEST_CASE("no message that is cut, has too much or names an unknown stage is accepted") {
  Bytes whole = encode(Reached{Stage::Ready, "n", {connection(kServer, kClient)}, ""});
  for (size_t n = 0; n < whole.size(); n++) CHECK_FALSE(parse_reached(ByteView(whole).first(n)));
  whole.push_back(std::byte{0});
  CHECK_FALSE(parse_reached(whole));
  whole.pop_back();
  whole[0] = std::byte{99};
  CHECK_FALSE(parse_reached(whole));
  Bytes many = Writer().put(Stage::Ready).str("").str("").put(u32{100'001}).take();
  CHECK_FALSE(parse_reached(many));
}

TEST_CASE("a member's name leads out of no folder") {
  CHECK(check_member_name("node-1.example_2"));
  for (const char *name : {"", "..", ".draft-x", "a/b", "a b", "a\n"})
    CHECK_FALSE(check_member_name(name));
  CHECK_FALSE(check_member_name(std::string(65, 'a')));
}

TEST_CASE("a job is whole if each connection has its other end in a member") {
  JobConnection server = connection(kServer, kClient), client = connection(kClient, kServer);
  CHECK(unmatched_connections({{"a", "n1", {server}}, {"b", "n2", {client}}}).empty());
  Reasons alone = unmatched_connections({{"a", "n1", {}}, {"b", "n2", {client}}});
  REQUIRE(alone.size() == 1);
  CHECK(
      alone[0].find("b: process 1 (a): descriptor 3 is a TCP connection to 10.0.0.1 port 80, where "
                    "no member of the job has the other end") == 0);
}

TEST_CASE("a connection that one end may still close is not a reason") {
  JobConnection client = connection(kClient, kServer), server = connection(kServer, kClient);
  client.may_close = true;
  CHECK(unmatched_connections({{"b", "n2", {client}}}).empty());
  server.held = false;
  CHECK_FALSE(
      unmatched_connections({{"a", "n1", {server}}, {"b", "n2", {connection(kClient, kServer)}}})
          .empty());
  CHECK(unmatched_connections({{"a", "n1", {server}}, {"b", "n2", {client}}}).empty());
}

TEST_CASE("ends that the kernel is still making or closing are told apart") {
  JobConnection client = connection(kClient, kServer);
  JobConnection closing = connection(kServer, kClient, 4, false);
  Reasons r = unmatched_connections({{"a", "n1", {closing}}, {"b", "n2", {client}}});
  REQUIRE(r.size() == 1);
  CHECK(r[0].find("not closed yet") != std::string::npos);
  client.state = InetSocket::CloseWait;
  CHECK(unmatched_connections({{"a", "n1", {}}, {"b", "n2", {client}}}).empty());
  client.state = InetSocket::SynSent;
  CHECK(unmatched_connections({{"b", "n2", {client}}})[0].find("still being established") !=
        std::string::npos);
}

TEST_CASE("a loopback connection does not match that of another node") {
  Endpoint one = at("127.0.0.1", 1000), two = at("127.0.0.1", 2000);
  JobConnection a = connection(one, two), b = connection(two, one);
  CHECK(unmatched_connections({{"a", "n1", {a}}, {"b", "n1", {b}}}).empty());
  CHECK(unmatched_connections({{"a", "n1", {a}}, {"b", "n2", {b}}}).size() == 2);
}
