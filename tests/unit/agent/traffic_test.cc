// SPDX-License-Identifier: Apache-2.0
//
// What a tool learns that predicts a move: what the way to the devices costs, and what they must
// offer, while the program runs and while it is suspended.
#include "agent/participant/traffic.h"

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;
using namespace std::chrono_literals;

namespace {

// Participant `one` counts; each "wait" of the test is a wait of the program, with 100 bytes.
void run_counting(App &app) {
  app.one.memory = {{"a", std::string(1000, 'x')}};
  app.two.memory = {{"b", std::string(30, 'x')}};
  app.one.counts = app.one.says_needs = true;
  app.start();
  while (app.hear() == "wait") {
    app.one.counter.count_wait();
    app.one.counter.count_bytes(100);
    app.one.counter.note_answer(3us, 8);
    app.say("waited");
  }
}

struct Told {
  u64 bytes = 0, ns = 0, waits = 0, moved = 0, answer_ns = 0, rate = 0;
  bool one_known = false, two_known = false;
};

Told traffic(Tool &tool) {
  Message m = tool.ask(Type::TrafficWanted);
  REQUIRE(Tool::type(m) == Type::Traffic);
  Reader in = m.reader();
  Told t;
  t.bytes = in.get<u64>();
  t.ns = in.get<u64>();
  REQUIRE(in.get<u32>() == 2);
  CHECK(in.str() == "one");
  t.one_known = in.get<u8>() != 0;
  t.waits = in.get<u64>();
  t.moved = in.get<u64>();
  t.answer_ns = in.get<u64>();
  t.rate = in.get<u64>();
  CHECK(in.str() == "two");
  t.two_known = in.get<u8>() != 0;
  for (int i = 0; i < 4; i++) CHECK(in.get<u64>() == 0);
  CHECK(in.done());
  return t;
}

void wait_once(Subject &subject) {
  subject.tell("wait");
  subject.expect({"waited"});
}

}  // namespace

TEST_CASE("a program's waits are counted from the moment that it gets its devices") {
  Session session;
  Subject subject(&session, run_counting);
  subject.expect({"ready"});
  wait_once(subject);
  wait_once(subject);
  Tool tool = session.connect();
  tool.hello();
  Told first = traffic(tool);
  CHECK(first.bytes == 1030);
  CHECK((first.one_known && !first.two_known));
  CHECK((first.waits == 2 && first.moved == 200 && first.answer_ns == 3000 && first.rate == 0));
  wait_once(subject);
  Told second = traffic(tool);
  CHECK(second.waits == 3);
  CHECK(second.ns > first.ns);

  to_quiesced(tool, subject);
  CHECK(Tool::what(tool.ask(Type::TrafficWanted)).find("running or suspended") !=
        std::string::npos);
  REQUIRE(Tool::type(tool.ask(Type::Suspend, Writer().str(""))) == Type::Suspended);
  subject.expect({"one.save", "two.save", "one.detach", "two.detach", "one.release_devices",
                  "two.release_devices"});
  Told suspended = traffic(tool), later = traffic(tool);
  CHECK(suspended.bytes >= 1030);
  CHECK(suspended.waits == 3);
  CHECK(suspended.ns == later.ns);  // it has no devices
  CHECK(tool.ask(Type::RequirementsWanted).reader().str() == R"([{"api":"one"},{"api":"two"}])");

  CHECK(Tool::type(tool.ask(Type::Wake, Writer().str(session.socket()))) == Type::Ok);
  subject.expect({"one.attach", "two.attach", "one.load", "one.loaded", "two.load", "two.loaded"});
  subject.expect(kResumed);
  CHECK(tool.hello() == State::Running);
  wait_once(subject);
  Told again = traffic(tool);
  CHECK((again.waits == 1 && again.moved == 100));
  CHECK(again.ns < suspended.ns + 60'000'000'000u);
}

TEST_CASE("a program that runs says what it needs, or why it cannot") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.says_needs = true;
    app.start();
    if (app.hear() == "both") app.two.says_needs = true;
    app.say("both");
    app.wait_for_end();
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  tool.hello();
  CHECK(Tool::what(tool.ask(Type::RequirementsWanted)).find("two devices is known only") !=
        std::string::npos);
  subject.tell("both");
  subject.expect({"both"});
  CHECK(tool.ask(Type::RequirementsWanted).reader().str() == R"([{"now":"one"},{"now":"two"}])");
}

TEST_CASE("the shortest answer and the fastest large transfer count, until devices change") {
  TrafficCounter c;
  c.note_answer(5ms, 8);
  c.note_answer(2ms, 4096);
  c.note_answer(3ms, 0);
  c.note_answer(1ms, 100'000);  // neither an answer alone nor its bytes alone
  CHECK(c.read().answer_ns == 2'000'000);
  CHECK(c.read().bytes_per_second == 0);
  c.note_answer(10ms, 2 << 20);
  c.note_answer(40ms, 4 << 20);
  CHECK(c.read().bytes_per_second == (u64{2} << 20) * 100);
  c.new_way();
  CHECK((c.read().answer_ns == 0 && c.read().bytes_per_second == 0));
}
