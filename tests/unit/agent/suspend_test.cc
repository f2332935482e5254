// SPDX-License-Identifier: Apache-2.0
//
// Suspended programs, and devices that lose their contents in a detach.
#include <thread>

#include <doctest/doctest.h>

#include "agent/transfer/contents_store.h"
#include "ckpt/ckpt.h"
#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

void run_with_zeros(App &app) {
  app.one.memory = {{"a", std::string(10000, 'x')}, {"zeros", std::string(5'000'000, '\0')}};
  app.two.memory = {{"a", "short"}};
  app.start();
  app.wait_for_end();
}

const std::vector<std::string> kSuspended = {
    "one.save",           "two.save", "one.detach", "two.detach", "one.release_devices",
    "two.release_devices"};
const std::vector<std::string> kLoaded = {"one.load", "one.loaded", "two.load", "two.loaded"};

Message suspend(Tool &tool, Subject &subject) {
  to_quiesced(tool, subject);
  return tool.ask(Type::Suspend, Writer().str(""));
}

Type wake(Tool &tool, Session &session) {
  return Tool::type(tool.ask(Type::Wake, Writer().str(session.socket())));
}

// What ckpt-run does with device memory during a dump.
void keep_contents(Session &session) {
  Tool agent = session.accept();
  std::optional<Message> kept = agent.receive();
  REQUIRE(kept);
  CHECK(Tool::type(*kept) == Type::ContentsKept);
  REQUIRE(kept->fds.size() == ContentsStore::kFiles);
  agent.send(Type::Ok);
  agent = session.accept();
  std::optional<Message> wanted = agent.receive();
  REQUIRE(wanted);
  CHECK(Tool::type(*wanted) == Type::ContentsWanted);
  CHECK(wanted->body == kept->body);  // the same token
  std::vector<int> files;
  for (const UniqueFd &file : kept->fds) files.push_back(file.get());
  agent.send(Type::Ok, {}, files);
}

}  // namespace

TEST_CASE("a program is suspended and resumed") {
  Session session;
  Subject subject(&session, run_with_zeros);
  subject.expect({"ready"});
  {
    Tool tool = session.connect();
    Message m = suspend(tool, subject);
    REQUIRE(Tool::type(m) == Type::Suspended);
    CHECK(m.reader().get<u64>() >= 5'010'000);
    subject.expect(kSuspended);
  }
  Tool tool = session.connect();
  CHECK(tool.hello() == State::Suspended);
  Message refused = tool.ask(Type::Quiesce, Writer().put(1000u));
  CHECK(Tool::what(refused).find("suspended") != std::string::npos);
  Message needs = tool.ask(Type::RequirementsWanted);
  CHECK(needs.reader().str() == R"([{"api":"one"},{"api":"two"}])");
  Writer map;
  map.str("two").put(1u).str("old").str("new");
  CHECK(Tool::type(tool.ask(Type::DeviceMap, map)) == Type::Ok);
  subject.expect({"two.use old=new"});
  CHECK(wake(tool, session) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  subject.expect(kLoaded);
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a program of several processes is kept and locked before it is suspended") {
  Session session;
  Subject subject(&session, run_with_zeros);
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  CHECK(Tool::what(tool.ask(Type::Lock)).find("only when the program is saved") !=
        std::string::npos);
  Message kept = tool.ask(Type::Keep, Writer().str(""));
  REQUIRE(Tool::type(kept) == Type::Suspended);
  CHECK(kept.reader().get<u64>() >= 5'010'000);
  subject.expect({"one.save", "two.save"});
  CHECK(Tool::type(tool.ask(Type::Lock)) == Type::Ok);
  subject.expect({"one.lock", "two.lock"});
  CHECK(Tool::type(tool.ask(Type::Suspend, Writer().str(""))) == Type::Suspended);
  subject.expect({"one.detach", "two.detach", "one.release_devices", "two.release_devices"});
  CHECK(Tool::what(tool.ask(Type::Suspend, Writer().str(""))).find("it is suspended") !=
        std::string::npos);
  CHECK(wake(tool, session) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  subject.expect(kLoaded);
  subject.expect(kResumed);
}

TEST_CASE("a program whose driver cannot be locked continues") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.fails_at = "lock";
    run_with_zeros(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  CHECK(Tool::type(tool.ask(Type::Keep, Writer().str(""))) == Type::Suspended);
  CHECK(Tool::what(tool.ask(Type::Lock)).find("told to fail") != std::string::npos);
  subject.expect(
      {"one.save", "two.save", "one.lock", "two.lock", "two.attach_again", "one.attach_again"});
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a program that ends as soon as it runs again was resumed") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.on_resume = [] { ::_exit(0); };
    run_with_zeros(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  CHECK(Tool::type(suspend(tool, subject)) == Type::Suspended);
  subject.expect(kSuspended);
  CHECK(wake(tool, session) == Type::Ok);
  CHECK(tool.hung_up());
}

TEST_CASE("a program that cannot be suspended continues") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.fails_at = "detach";
    run_with_zeros(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  Message m = suspend(tool, subject);
  CHECK(Tool::what(m).find("told to fail") != std::string::npos);
  subject.expect(
      {"one.save", "two.save", "one.detach", "two.detach", "two.attach_again", "one.attach_again"});
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a program that cannot be resumed stays suspended") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.fails_at = "load";
    app.two.on_detach = [&app, n = 0]() mutable {
      if (++n == 2) app.two.fails_at = "";
    };
    run_with_zeros(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  CHECK(Tool::type(suspend(tool, subject)) == Type::Suspended);
  subject.expect(kSuspended);
  CHECK(wake(tool, session) == Type::Failed);
  subject.expect({"one.attach", "two.attach", "one.load", "one.loaded", "two.load", "two.detach",
                  "one.detach", "one.release_devices", "two.release_devices"});
  CHECK(tool.hello() == State::Suspended);
  CHECK(wake(tool, session) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  subject.expect(kLoaded);
  subject.expect(kResumed);
}

TEST_CASE("a program suspends itself") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory = {{"a", "contents"}};
    app.start();
    app.need(ckpt_resume() == CKPT_ERR_FAILED, "nothing to resume");
    app.need(ckpt_suspend("") == CKPT_ERR_INVALID, "no folder");
    app.need(ckpt_suspend(nullptr) == 0, "suspended");
    app.need(ckpt_state() == CKPT_SUSPENDED, "the state");
    app.need(ckpt_resume() == 0, "resumed");
    app.need(ckpt_state() == CKPT_RUNNING, "running");
    app.say("done");
    app.wait_for_end();
  });
  subject.expect({"ready", "one.quiesce", "two.quiesce"});
  subject.expect(kSuspended);
  subject.expect({"one.attach", "two.attach"});
  subject.expect(kLoaded);
  subject.expect(kResumed);
  subject.expect({"done"});
}

TEST_CASE("contents that devices lose in a detach are restored from the keeper") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.two.keeps = false;
    run_with_zeros(app);
  });
  subject.expect({"ready"});
  std::thread keeper([&] { keep_contents(session); });
  {
    Tool tool = session.connect();
    to_detached(tool, subject);
    CHECK(tool.saved["two/a"] == "short");
    tool.send_outcome(Outcome::Continue);
  }
  subject.expect({"two.attach_again", "two.load", "two.loaded", "one.attach_again"});
  subject.expect(kResumed);
  keeper.join();
}
