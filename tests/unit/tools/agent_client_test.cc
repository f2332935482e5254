// SPDX-License-Identifier: Apache-2.0
//
// What a tool does with the answers of a hostile agent.
#include "tools/agent_link/agent_client.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
using protocol::Type;
namespace {

// An agent that has given its only answer before it is asked.
struct Agent {
  Agent(Type type, const Writer &body) {
    auto ends = socket_pair();
    REQUIRE(ends);
    socket = std::move(ends->second);
    REQUIRE(send_message(socket.get(), static_cast<u16>(type), body.bytes()));
    client.emplace(std::move(ends->first));
  }
  UniqueFd socket;
  std::optional<AgentClient> client;
};

Writer welcome(u32 participants, u32 sent) {
  Writer w;
  w.put(protocol::kVersion).put(u32{7}).put(protocol::State::Running).put(participants);
  for (u32 i = 0; i < sent; i++) w.str("");
  return w;
}

}  // namespace

TEST_CASE("a welcome names the participants") {
  Result<AgentClient::Welcome> w = Agent(Type::Welcome, welcome(2, 2)).client->hello("test");
  REQUIRE(w);
  CHECK(w->pid == 7);
  CHECK(w->participants.size() == 2);
}

TEST_CASE("a welcome with more participants than it has, or than can be, is malformed") {
  CHECK_FALSE(Agent(Type::Welcome, welcome(3, 2)).client->hello("test"));
  CHECK_FALSE(Agent(Type::Welcome, welcome(10'000, 10'000)).client->hello("test"));
}

TEST_CASE("an answer of another type or without its body is an error, a failure is the agent's") {
  CHECK_FALSE(Agent(Type::Ok, {}).client->hello("test"));
  CHECK_FALSE(Agent(Type::Suspended, {}).client->suspend(""));
  CHECK(*Agent(Type::Suspended, Writer().put(u64{5})).client->suspend("") == 5);
  Agent agent(Type::Failed, Writer().str("why").str("what to do"));
  Result<> failed = agent.client->resume();
  REQUIRE_FALSE(failed);
  CHECK(failed.error().what == "why");
  CHECK(failed.error().hint == "what to do");
}

TEST_CASE("the depth of a suspend is known from newer agents alone") {
  using protocol::Depth;
  CHECK(Agent(Type::DepthIs, Writer().put(Depth::Memory)).client->depth() == Depth::Memory);
  CHECK(Agent(Type::Failed, Writer().str("what?").str("")).client->depth() == std::nullopt);
  CHECK(Agent(Type::DepthIs, Writer().put(u8{9})).client->depth() == std::nullopt);
  CHECK(Agent(Type::DepthIs, {}).client->depth() == std::nullopt);
}

TEST_CASE("what a program loses by the way to its devices is known from newer agents alone") {
  Writer w;
  w.put(u64{1000}).put(u64{2'500'000'000}).put(u32{2});
  w.str("cuda").put(u8{1}).put(u64{7}).put(u64{8}).put(u64{9}).put(u64{10});
  w.str("ocl").put(u8{0}).put(u64{0}).put(u64{0}).put(u64{0}).put(u64{0});
  Result<DeviceTraffic> t = Agent(Type::Traffic, w).client->traffic();
  REQUIRE(t);
  CHECK(t->held_bytes == 1000);
  CHECK(t->seconds == doctest::Approx(2.5));
  REQUIRE(t->all.size() == 2);
  const DeviceTraffic::One &cuda = t->all[0];
  CHECK((cuda.known && cuda.waits == 7 && cuda.bytes == 8 && cuda.answer_ns == 9));
  CHECK(cuda.bytes_per_second == 10);
  CHECK_FALSE(t->all[1].known);
  CHECK_FALSE(Agent(Type::Traffic, Writer().put(u64{1}).put(u64{1}).put(u32{2})).client->traffic());
  CHECK_FALSE(Agent(Type::Failed, Writer().str("what?").str("")).client->traffic());
}

TEST_CASE("an answer that is larger than any agent's is refused before it is read") {
  auto ends = socket_pair();
  REQUIRE(ends);
  u32 header[2] = {200u << 20, static_cast<u32>(Type::Saved)};
  REQUIRE(write_all(ends->second.get(), view(header, sizeof header)));
  Result<std::string> needs = AgentClient(std::move(ends->first)).requirements();
  REQUIRE_FALSE(needs);
  CHECK(needs.error().what.find("exceeds the limit") != std::string::npos);
}

}  // namespace ckpt::test
