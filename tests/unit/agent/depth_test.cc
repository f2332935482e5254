// SPDX-License-Identifier: Apache-2.0
//
// Suspended programs that have given back memory alone: participant "one" has both depths, "two"
// has one.
#include <doctest/doctest.h>

#include "ckpt/ckpt.h"
#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

using protocol::Depth;

void run_with_depths(App &app) {
  app.one.has_depths = true;
  app.one.memory = {{"a", std::string(10000, 'x')}};
  app.two.memory = {{"a", "short"}};
  app.start();
  app.wait_for_end();
}

Depth depth_of(Tool &tool) {
  Message m = tool.ask(Type::DepthWanted);
  CHECK(Tool::type(m) == Type::DepthIs);
  return m.reader().get<Depth>();
}

void suspend_memory(Tool &tool, Subject &subject) {
  to_quiesced(tool, subject);
  Message m = tool.ask(Type::SuspendMemory, Writer().str(""));
  REQUIRE(Tool::type(m) == Type::Suspended);
  CHECK(m.reader().get<u64>() >= 10005);
  subject.expect({"one.save", "two.save", "one.release_memory", "two.detach", "one.release_devices",
                  "two.release_devices"});
}

void wake(Tool &tool, Session &session, Subject &subject) {
  CHECK(Tool::type(tool.ask(Type::Wake, Writer().str(session.socket()))) == Type::Ok);
  subject.expect({"one.attach", "two.attach", "one.load", "one.loaded", "two.load", "two.loaded"});
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
  CHECK(depth_of(tool) == Depth::None);
}

}  // namespace

TEST_CASE("a program gives back memory alone, and is resumed") {
  Session session;
  Subject subject(&session, run_with_depths);
  subject.expect({"ready"});
  Tool tool = session.connect();
  CHECK(tool.hello() == State::Running);
  CHECK(depth_of(tool) == Depth::None);
  suspend_memory(tool, subject);
  CHECK(depth_of(tool) == Depth::Memory);
  tool.hang_up();
  tool = session.connect();
  CHECK(tool.hello() == State::Suspended);
  CHECK(depth_of(tool) == Depth::Memory);
  wake(tool, session, subject);
}

TEST_CASE("what is still on the devices is given back later, at once or in two steps") {
  Session session;
  Subject subject(&session, run_with_depths);
  subject.expect({"ready"});
  for (bool locks : {false, true}) {
    Tool tool = session.connect();
    suspend_memory(tool, subject);
    if (locks) {
      CHECK(Tool::type(tool.ask(Type::Lock)) == Type::Ok);
      subject.expect({"one.lock"});
    }
    Message m = tool.ask(Type::Deepen);
    REQUIRE(Tool::type(m) == Type::Suspended);
    CHECK(m.reader().get<u64>() >= 10005);
    subject.expect({"one.detach", "one.release_devices"});
    CHECK(depth_of(tool) == Depth::Full);
    CHECK(Tool::what(tool.ask(Type::Deepen)).find("already") != std::string::npos);
    CHECK(Tool::what(tool.ask(Type::Lock)).find("only when the program is saved") !=
          std::string::npos);
    wake(tool, session, subject);
  }
}

TEST_CASE("a program whose devices cannot be given back is where it was") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.on_detach = [&app, n = 0]() mutable { app.one.fails_at = ++n == 1 ? "detach" : ""; };
    run_with_depths(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  suspend_memory(tool, subject);
  CHECK(Tool::what(tool.ask(Type::Deepen)).find("told to fail") != std::string::npos);
  subject.expect({"one.detach", "one.undo_lock"});
  CHECK(depth_of(tool) == Depth::Memory);
  CHECK(Tool::type(tool.ask(Type::Deepen)) == Type::Suspended);
  subject.expect({"one.detach", "one.release_devices"});
  wake(tool, session, subject);
}

TEST_CASE("a tool that hangs up between the two steps leaves the program where it was") {
  Session session;
  Subject subject(&session, run_with_depths);
  subject.expect({"ready"});
  Tool tool = session.connect();
  suspend_memory(tool, subject);
  CHECK(Tool::type(tool.ask(Type::Lock)) == Type::Ok);
  subject.expect({"one.lock"});
  tool.hang_up();
  subject.expect({"one.undo_lock"});
  tool = session.connect();
  CHECK(tool.hello() == State::Suspended);
  CHECK(depth_of(tool) == Depth::Memory);
  wake(tool, session, subject);
}

TEST_CASE("memory that cannot be given back is the program's again") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.fails_at = "release_memory";
    run_with_depths(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  Message m = tool.ask(Type::SuspendMemory, Writer().str(""));
  CHECK(Tool::what(m).find("told to fail") != std::string::npos);
  subject.expect({"one.save", "two.save", "one.release_memory", "one.attach_again"});
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a program that cannot be resumed keeps what it has kept") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.fails_at = "load";
    app.two.on_detach = [&app, n = 0]() mutable {
      if (++n == 2) app.two.fails_at = "";
    };
    run_with_depths(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  suspend_memory(tool, subject);
  CHECK(Tool::type(tool.ask(Type::Wake, Writer().str(session.socket()))) == Type::Failed);
  subject.expect({"one.attach", "two.attach", "one.load", "one.loaded", "two.load", "two.detach",
                  "one.release_memory", "one.release_devices", "two.release_devices"});
  CHECK(depth_of(tool) == Depth::Memory);
  wake(tool, session, subject);
}

TEST_CASE("an API with one depth gives everything back") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory = {{"a", std::string(10005, 'x')}};
    app.start();
    app.wait_for_end();
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  CHECK(Tool::type(tool.ask(Type::SuspendMemory, Writer().str(""))) == Type::Suspended);
  subject.expect({"one.save", "two.save", "one.detach", "two.detach", "one.release_devices",
                  "two.release_devices"});
  CHECK(depth_of(tool) == Depth::Full);
  wake(tool, session, subject);
}

TEST_CASE("a program gives back its own memory, and then the rest") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.has_depths = true;
    app.start();
    app.need(ckpt_suspend_memory("") == CKPT_ERR_INVALID, "no folder");
    app.need(ckpt_suspend_memory(nullptr) == 0, "suspended");
    app.need(ckpt_state() == CKPT_SUSPENDED, "the state");
    app.need(ckpt_suspend_memory(nullptr) == CKPT_ERR_FAILED, "it is suspended");
    app.need(ckpt_suspend(nullptr) == 0, "deepened");
    app.need(ckpt_suspend(nullptr) == CKPT_ERR_FAILED, "it has given everything back");
    app.need(ckpt_resume() == 0, "resumed");
    app.say("done");
    app.wait_for_end();
  });
  subject.expect({"ready", "one.quiesce", "two.quiesce", "one.save", "two.save",
                  "one.release_memory", "two.detach", "one.release_devices", "two.release_devices",
                  "one.detach", "one.release_devices", "one.attach", "two.attach", "one.load",
                  "one.loaded", "two.load", "two.loaded"});
  subject.expect(kResumed);
  subject.expect({"done"});
}
