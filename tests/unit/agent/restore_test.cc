// SPDX-License-Identifier: Apache-2.0
//
// The life cycle in a restored copy, without CRIU: only the outcome distinguishes a copy from the
// original.
#include <unistd.h>

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

void run_with_memory(App &app) {
  app.one.memory = {{"a", std::string(50000, 'a')}, {"b", "short"}, {"empty", ""}};
  app.two.memory = {{"a", std::string(30000, 'z')}};
  app.start();
  app.hear();
  app.one.fails_at = "";
  app.two.fails_at = "";
  app.say("mended " + session_socket());
  const char *variable = ::getenv(protocol::kSessionVariable);
  app.say(variable ? variable : "");
  app.wait_for_end();
}

// Both loads run at once, so their events come in either order.
void expect_load(Subject &subject) {
  std::vector<std::string> seen(4);
  for (std::string &event : seen) event = subject.next();
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::string>{"one.load", "one.loaded", "two.load", "two.loaded"});
}

}  // namespace

TEST_CASE("a copy is restored, dumped and restored again") {
  Session first, second, third;
  Subject subject(&first, run_with_memory);
  subject.expect({"ready"});
  Session *from = &first;
  for (Session *to : {&second, &third}) {
    auto [tool, keeper] = to_restored(*from, *to, subject);
    CHECK(tool.saved.size() == 4);
    CHECK(tool.saved["one/a"] == std::string(50000, 'a'));
    CHECK(tool.saved["one/b"] == "short");
    CHECK(tool.saved["two/a"] == std::string(30000, 'z'));
    CHECK(keeper.hello() == State::Detached);
    CHECK(keeper.attach(to->socket()) == Type::Ok);
    subject.expect({"one.attach", "two.attach"});
    CHECK(Tool::type(keeper.load(tool.saved)) == Type::Ok);
    expect_load(subject);
    CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Ok);
    // When Resume is answered, the next tool can connect.
    CHECK(to->agents().size() == 1);
    CHECK(from->agents().empty());
    CHECK(keeper.hung_up());
    subject.expect({"two.resume", "one.resume"});
    from = to;
  }
  subject.tell("where are you?");
  subject.expect({"mended " + third.socket(), third.socket()});
}

TEST_CASE("after a hang-up before Resume the program runs without devices") {
  Session first, second;
  Subject subject(&first, run_with_memory);
  subject.expect({"ready"});
  {
    auto [tool, keeper] = to_restored(first, second, subject);
    SUBCASE("at once") {}
    SUBCASE("after Attach") {
      keeper.hello();
      CHECK(keeper.attach(second.socket()) == Type::Ok);
      keeper.hang_up();
      subject.expect({"one.attach", "two.attach", "two.detach", "one.detach"});
    }
    SUBCASE("after Load") {
      keeper.hello();
      CHECK(keeper.attach(second.socket()) == Type::Ok);
      subject.expect({"one.attach", "two.attach"});
      CHECK(Tool::type(keeper.load(tool.saved)) == Type::Ok);
      expect_load(subject);
      keeper.hang_up();
      subject.expect({"two.detach", "one.detach"});
    }
  }
  subject.expect({"two.resume", "one.resume"});
  Tool again = second.connect();
  CHECK(again.hello() == State::Running);
}

TEST_CASE("a copy that cannot connect to its new session loses its devices") {
  Session first;
  Subject subject(&first, run_with_memory);
  subject.expect({"ready"});
  Tool tool = first.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Restored, first.folder() + "/missing.sock");
  subject.expect({"two.resume", "one.resume"});
}

TEST_CASE("a restore that fails can be tried again, on another device") {
  Session first, second;
  const char *verb = "";
  SUBCASE("attach") { verb = "attach"; }
  SUBCASE("load") { verb = "load"; }
  Subject subject(&first, [&](App &app) {
    app.two.fails_at = verb;
    run_with_memory(app);
  });
  subject.expect({"ready"});
  auto [tool, keeper] = to_restored(first, second, subject);
  keeper.hello();
  Message answer = keeper.ask(Type::Attach, Writer().str(second.socket()));
  if (Tool::type(answer) == Type::Ok) answer = keeper.load(tool.saved);
  std::string what = Tool::what(answer);
  CHECK_MESSAGE(what.ends_with("told to fail"), what);
  CHECK(keeper.hello() == State::Detached);

  subject.tell("mend");
  for (std::string event; !event.starts_with("mended") && event != "(nothing)";)
    event = subject.next();
  subject.next();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  CHECK(Tool::type(keeper.load(tool.saved)) == Type::Ok);
  expect_load(subject);
  CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Ok);
  subject.expect({"two.resume", "one.resume"});
}

TEST_CASE("a participant that stops loading does not block the others") {
  Session first, second;
  Subject subject(&first, [](App &app) {
    app.two.loads_nothing = true;
    run_with_memory(app);
  });
  subject.expect({"ready"});
  auto [tool, keeper] = to_restored(first, second, subject);
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  CHECK(Tool::type(keeper.load(tool.saved, 1)) == Type::Ok);
  expect_load(subject);
  CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Ok);
}

TEST_CASE("regions that come later are left out of the load, and one participant takes them") {
  Session first, second;
  Subject subject(&first, [](App &app) {
    app.one.later = app.two.later = "a";
    run_with_memory(app);
  });
  subject.expect({"ready"});
  auto [tool, keeper] = to_restored(first, second, subject);
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  subject.expect({"one.attach", "two.attach"});
  auto ends = socket_pair();
  REQUIRE(ends);
  Writer offer;
  offer.put(u32{4});
  for (auto [name, bytes] : {std::pair("one/b", 5), {"one/a", 50000}, {"two/a", 30000}, {"", 0}})
    offer.str(name).put(static_cast<u64>(bytes));
  Message answer = keeper.ask(Type::ContentsArrive, offer, {ends->second.get()});
  CHECK(Tool::type(answer) == Type::Ok);
  REQUIRE(answer.body.size() == 4);
  CHECK(answer.body[0] == std::byte{0});
  CHECK(answer.body[1] == std::byte{1});
  CHECK(answer.body[2] == std::byte{0});  // the socket is the other one's
  CHECK(answer.body[3] == std::byte{0});
  auto told = receive_message(ends->first.get());
  REQUIRE(told);
  CHECK((*told)->body.size() == 1);
  subject.expect({"one.load_later"});
  Memory rest = tool.saved;
  rest.erase("one/a");
  // Participant `two` has not taken its region, and gets it here.
  CHECK(Tool::type(keeper.load(rest)) == Type::Ok);
  CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Ok);
}

TEST_CASE("an image that does not fit the program is refused") {
  Session first, second;
  Subject subject(&first, run_with_memory);
  subject.expect({"ready"});
  auto [tool, keeper] = to_restored(first, second, subject);
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  Memory memory = tool.saved;
  std::string part;
  SUBCASE("a region of an unknown API") {
    memory["three/a"] = "x";
    part = "three/a";
  }
  SUBCASE("a region is missing") {
    memory.erase("one/a");
    part = "differs";
  }
  SUBCASE("Resume without Load") { memory.clear(); }
  if (!memory.empty()) {
    std::string what = Tool::what(keeper.load(memory));
    CHECK_MESSAGE(what.find(part) != what.npos, what);
    CHECK(keeper.hello() == State::Detached);
  } else {
    CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Failed);
  }
}
