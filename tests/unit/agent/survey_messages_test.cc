// SPDX-License-Identifier: Apache-2.0
//
// The messages about device memory that its device has looked at.
#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

constexpr u64 kZeroBytes = 3 << 20;

void run_with_cleared(App &app) {
  app.one.clears = true;
  app.two.clears = app.hear() == "clears";
  app.one.memory = {{"a", std::string(kZeroBytes, 0)}};
  app.start();
  app.wait_for_end();
}

Type zeros_at(Tool &tool, u32 region, u64 offset, u64 bytes) {
  UniqueFd staging(::memfd_create("staging", MFD_CLOEXEC));
  REQUIRE(::ftruncate(staging.get(), 4096) == 0);
  Message begun = tool.ask(Type::Load, Writer().put(u32{1}).put(u32{4096}), {staging.get()});
  REQUIRE(Tool::type(begun) == Type::Ok);
  tool.send(Type::Region, Writer().put(u32{0}).str("one/a").put(kZeroBytes));
  tool.send(Type::ZerosAt, Writer().put(region).put(offset).put(bytes));
  return Tool::type(tool.ask(Type::LoadEnd));
}

// In a copy of a program that holds zeros.
Type load_zeros(bool all_clear, u32 region, u64 offset, u64 bytes) {
  Session first, second;
  Subject subject(&first, run_with_cleared);
  subject.tell(all_clear ? "clears" : "copies");
  subject.expect({"ready"});
  auto [tool, keeper] = to_restored(first, second, subject);
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  Type loadable = Tool::type(keeper.ask(Type::ZerosLoadable));
  CHECK(loadable == (all_clear ? Type::Ok : Type::Failed));
  return all_clear ? zeros_at(keeper, region, offset, bytes) : loadable;
}

}  // namespace

TEST_CASE("a tool that asks for it is told what devices saw; malformed requests change nothing") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.looks_first = true;
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  tool.hello();
  CHECK(Tool::type(tool.ask(Type::SurveyWanted)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::SurveyWanted, Writer().put(u32{1}))) == Type::Failed);
  UniqueFd file(::memfd_create("addresses", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), 16) == 0);
  auto ends = *socket_pair();
  int socket = ends.first.get();
  for (u64 count : {u64{2}, ~u64{0}, u64{1} << 60})
    CHECK(Tool::type(tool.ask(Type::ParentChunks, Writer().put(count), {file.get(), socket})) ==
          Type::Failed);
  CHECK(Tool::type(tool.ask(Type::ParentChunks, Writer().put(u64{1}), {file.get()})) ==
        Type::Failed);
  CHECK(Tool::type(tool.ask(Type::ParentChunks, Writer().put(u64{1}), {file.get(), socket})) ==
        Type::Ok);
  Message answer = tool.ask(Type::SurveyWanted, Writer().put(u64{5}));
  CHECK(Tool::type(answer) == Type::Ok);
  CHECK(answer.reader().get<u8>() == 1);
  to_quiesced(tool, subject);
  CHECK(Tool::type(tool.ask(Type::SurveyWanted, Writer().put(u64{5}))) == Type::Failed);
  CHECK(Tool::type(tool.save()) == Type::Saved);
  CHECK(tool.surveyed == 1);
}

TEST_CASE("a tool that does not ask is not told") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  CHECK(Tool::type(tool.save()) == Type::Saved);
  CHECK(tool.surveyed == 0);
}

TEST_CASE("zeros are loaded without slots, unless they exceed their region") {
  CHECK(load_zeros(true, 0, 0, kZeroBytes) == Type::Ok);
  CHECK(load_zeros(true, 0, 1, kZeroBytes) == Type::Failed);
  CHECK(load_zeros(true, 0, 0, ~u64{0}) == Type::Failed);
  CHECK(load_zeros(true, 0, 0, 0) == Type::Failed);
  CHECK(load_zeros(true, 1, 0, kZeroBytes) == Type::Failed);
}

TEST_CASE("zeros need slots where one device does not clear its memory itself") {
  CHECK(load_zeros(false, 0, 0, kZeroBytes) == Type::Failed);
}
