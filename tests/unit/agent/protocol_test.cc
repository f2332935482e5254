// SPDX-License-Identifier: Apache-2.0
//
// The agent and tools that are older, newer or broken.
#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

TEST_CASE("tools of any version are greeted; an unknown request is an error") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  SUBCASE("newer") {
    CHECK(tool.hello(99) == State::Running);
    std::string what = Tool::what(tool.ask(Type{999}));
    CHECK(what.find("999") != what.npos);
  }
  SUBCASE("the same version") { CHECK(tool.hello() == State::Running); }
  SUBCASE("version 0") {
    Message m = tool.ask(Type::Hello, Writer().put(u32{0}).str("fake"));
    CHECK(Tool::type(m) == Type::Failed);
  }
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("malformed and premature requests are refused and change nothing") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  CHECK(Tool::what(tool.ask(Type::Preflight)) == "Preflight before Hello");
  tool.hello();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd a(ends[0]), b(ends[1]);
  for (Type early : {Type::Save, Type::Detach, Type::Attach, Type::Load, Type::Resume})
    CHECK(Tool::type(tool.ask(early)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Hello)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Hello, Writer().put(u32{1}).put(u32{1u << 31}))) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Quiesce)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Quiesce, Writer().put(u64{1}))) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Preflight, Writer().put(u8{1}))) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::CheckpointFailed)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Ok)) == Type::Failed);
  CHECK(tool.hello() == State::Running);

  to_saved(tool, subject);
  CHECK(Tool::type(tool.ask(Type::Detach)) == Type::Failed);
  CHECK(Tool::type(tool.ask(Type::Detach, {}, {a.get(), b.get()})) == Type::Failed);
  UniqueFd not_a_pipe(::memfd_create("x", 0));
  CHECK(Tool::type(tool.ask(Type::Detach, {}, {not_a_pipe.get()})) == Type::Failed);
  CHECK(tool.hello() == State::Saved);
}

Message announce(Tool &tool, u8 image, u8 parent) {
  ImageId ids[2] = {{image}, {parent}};
  return tool.ask(Type::Increment, Writer().raw(ids, sizeof ids));
}

TEST_CASE("an increment names unchanged regions without sending their contents") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory = {{"a", std::string(9000, 'a')}, {"b", "old"}};
    app.start();
    app.need(app.hear() == "write", "a command");
    app.one.write("b", "new");
    app.say("written");
    app.wait_for_end();
  });
  subject.expect({"ready"});
  auto save = [&](Tool &tool, u8 image, u8 parent) {
    tool.hello();
    CHECK(tool.quiesce() == Type::Ok);
    CHECK(Tool::type(announce(tool, image, parent)) == Type::Ok);
    CHECK(Tool::type(tool.save()) == Type::Saved);
    subject.expect({"one.quiesce", "two.quiesce", "one.save", "two.save"});
    tool.hang_up();
    subject.expect({"two.resume", "one.resume"});
  };
  Tool first = session.connect();
  save(first, 1, 0);
  CHECK(first.saved.size() == 2);
  CHECK(first.same.empty());
  subject.tell("write");
  subject.expect({"written"});
  Tool second = session.connect();
  save(second, 2, 1);
  CHECK(second.same == std::vector<std::string>{"one/a"});
  CHECK(second.saved == Memory{{"one/b", "new"}});
  // Relative to another image than the last one: everything is sent.
  Tool third = session.connect();
  save(third, 3, 1);
  CHECK(third.saved.size() == 2);
  // A tool that does not announce an increment gets everything.
  Tool old = session.connect();
  old.hello();
  CHECK(old.quiesce() == Type::Ok);
  CHECK(Tool::type(old.ask(Type::Increment, Writer().put(u64{1}))) == Type::Failed);
  CHECK(Tool::type(old.save()) == Type::Saved);
  CHECK(old.saved.size() == 2);
}

TEST_CASE("messages that are left over from a transfer are ignored") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_saved(tool, subject);
  tool.send(Type::SlotFree, Writer().put(u32{1}));
  tool.send(Type::SlotFull, Writer().put(u32{1}));
  tool.send(Type::Region);
  tool.send(Type::LoadEnd);
  CHECK(tool.hello() == State::Saved);
}

TEST_CASE("unusable staging memory fails the save") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  tool.hello();
  u32 slots = 2, slot_bytes = 4096;
  off_t size = 8192;
  std::vector<int> fds;
  UniqueFd memfd(::memfd_create("ckpt-staging", MFD_CLOEXEC));
  SUBCASE("no descriptor") {}
  SUBCASE("too small") {
    fds = {memfd.get()};
    size = 8191;
  }
  SUBCASE("no slots") {
    fds = {memfd.get()};
    slots = 0;
  }
  SUBCASE("slots that are not whole pages") {
    fds = {memfd.get()};
    slot_bytes = 100;
  }
  SUBCASE("a size that exceeds 32 bits") {
    fds = {memfd.get()};
    slots = 0xffffffff;
    slot_bytes = 0xfffff000;
  }
  SUBCASE("not a memfd") { fds = {STDERR_FILENO}; }
  REQUIRE(::ftruncate(memfd.get(), size) == 0);
  CHECK(tool.quiesce() == Type::Ok);
  Message m = tool.ask(Type::Save, Writer().put(slots).put(slot_bytes), fds);
  CHECK(Tool::type(m) == Type::Failed);
  subject.expect({"one.quiesce", "two.quiesce", "two.resume", "one.resume"});
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a tool that returns slots that it does not have fails the save") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory["a"] = std::string(20000, 'x');
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  UniqueFd memfd(::memfd_create("ckpt-staging", MFD_CLOEXEC));
  REQUIRE(::ftruncate(memfd.get(), 8192) == 0);
  Writer answer;
  Type type = Type::SlotFree;
  SUBCASE("out of range") { answer.put(u32{2}); }
  SUBCASE("far out of range") { answer.put(u32{0xffffffff}); }
  SUBCASE("truncated") { answer.put(u16{0}); }
  SUBCASE("another request") { type = Type::Detach; }
  tool.send(Type::Save, Writer().put(u32{2}).put(u32{4096}), {memfd.get()});
  tool.send(type, answer);
  Message m;
  do {
    std::optional<Message> next = tool.receive();
    REQUIRE(next);
    m = std::move(*next);
  } while (Tool::type(m) == Type::Region || Tool::type(m) == Type::SlotFull);
  CHECK(Tool::type(m) == Type::Failed);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("malformed pieces fail the load only") {
  Session session, second;
  Subject subject(&session, [](App &app) {
    app.one.memory["a"] = std::string(8192, 'x');
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool keeper = to_restored(session, second, subject).keeper;
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  UniqueFd memfd(::memfd_create("ckpt-staging", MFD_CLOEXEC));
  REQUIRE(::ftruncate(memfd.get(), 8192) == 0);
  CHECK(Tool::type(keeper.ask(Type::Load, Writer().put(u32{2}).put(u32{4096}), {memfd.get()})) ==
        Type::Ok);
  auto region = [&](u32 number, u64 bytes) {
    keeper.send(Type::Region, Writer().put(number).str("one/a").put(bytes));
  };
  auto piece = [&](u32 slot, u32 number, u64 offset, u32 bytes) {
    keeper.send(Type::SlotFull, Writer().put(slot).put(number).put(offset).put(bytes));
  };
  SUBCASE("a region twice") {
    region(1, 8192);
    region(1, 8192);
  }
  SUBCASE("a truncated region") { keeper.send(Type::Region, Writer().put(u32{1})); }
  SUBCASE("a region that was not announced") { piece(0, 1, 0, 4096); }
  SUBCASE("a slot out of range") {
    region(1, 8192);
    piece(2, 1, 0, 4096);
  }
  SUBCASE("more than a slot") {
    region(1, 1 << 20);
    piece(0, 1, 0, 4097);
  }
  SUBCASE("beyond the region") {
    region(1, 5000);
    piece(0, 1, 4096, 4096);
  }
  SUBCASE("an offset that wraps around") {
    region(1, 8192);
    piece(0, 1, 0xfffffffffffff000, 4096);
  }
  SUBCASE("an offset between slots") {
    region(1, 8192);
    piece(0, 1, 5, 16);
  }
  SUBCASE("no bytes") {
    region(1, 8192);
    piece(0, 1, 0, 0);
  }
  SUBCASE("less than was saved") {
    region(1, 8192);
    keeper.send(Type::LoadEnd);
  }
  SUBCASE("another request") { keeper.send(Type::Quiesce, Writer().put(u32{1})); }
  Message m;
  do {
    std::optional<Message> next = keeper.receive();
    REQUIRE(next);
    m = std::move(*next);
  } while (Tool::type(m) == Type::SlotFree);
  CHECK(Tool::type(m) == Type::Failed);
  CHECK(keeper.hello() == State::Detached);
}

TEST_CASE("a broken frame closes the connection, and the program continues") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  u32 huge[2] = {0xffffffff, static_cast<u32>(Type::Hello)};
  u32 fds[2] = {0, static_cast<u32>(Type::Hello) | 0xffff0000u};
  u32 too_long[2] = {2u << 20, static_cast<u32>(Type::Hello)};
  for (const u32 *header : {huge, fds, too_long}) {
    Tool tool = session.connect();
    tool.send_raw(header, 8);
    CHECK(tool.hung_up());
  }
  Tool tool = session.connect();
  tool.send_raw("xyz", 3);
  tool.hang_up();
  CHECK(session.connect().hello() == State::Running);
}

TEST_CASE("random bytes do not harm the agent") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  u32 seed = 12345;
  auto random = [&] { return seed = seed * 1664525 + 1013904223; };
  for (int i = 0; i < 300; i++) {
    Tool tool = session.connect();
    tool.hello();
    u32 types[] = {10, 12, 14, 15, 18, 19, 21, 22, 30, 31, 32, random() >> 24};
    Writer body;
    for (u32 n = random() >> 27; n > 0; n--) body.put(static_cast<u8>(random() >> 24));
    tool.send(Type{static_cast<u16>(types[random() >> 16 & 7])}, body);
    tool.hang_up();
  }
  CHECK(session.connect().hello() == State::Running);
}

TEST_CASE("a second tool waits for the first") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool first = session.connect();
  to_quiesced(first, subject);
  Tool second = session.connect();
  second.send(Type::Hello, Writer().put(protocol::kVersion).str("second"));
  first.hang_up();
  subject.expect({"two.resume", "one.resume"});
  std::optional<Message> welcome = second.receive();
  REQUIRE(welcome);
  CHECK(Tool::type(*welcome) == Type::Welcome);
}
