// SPDX-License-Identifier: Apache-2.0
//
// The life cycle in a program that continues after a dump: every step, and the undoing of each.
#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

// The subject is running and can be taken through the first half again.
void check_running(Session &session, Subject &subject) {
  Tool tool = session.connect();
  CHECK(tool.hello() == State::Running);
  CHECK(tool.quiesce() == Type::Ok);
  subject.expect({"one.quiesce", "two.quiesce"});
  tool.hang_up();
  subject.expect(kResumed);
}

}  // namespace

TEST_CASE("a dump that leaves the program running") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  std::string old_socket;
  {
    Tool tool = session.connect();
    old_socket = session.agents().at(0);
    to_detached(tool, subject);
    CHECK(tool.requirements == R"([{"api":"one"},{"api":"two"}])");
    CHECK(session.agents().empty());
    SUBCASE("continue") { tool.send_outcome(Outcome::Continue); }
    SUBCASE("failed") { tool.send_outcome(Outcome::Failed, "disk full"); }
    SUBCASE("end of file") { tool.close_outcome_pipe(); }
    SUBCASE("an unknown outcome") { tool.send_outcome(Outcome{'?'}); }
  }
  subject.expect(kBack);
  check_running(session, subject);
  CHECK(session.agents().at(0) != old_socket);
}

TEST_CASE("a hang-up before Detach is answered undoes everything") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  {
    Tool tool = session.connect();
    SUBCASE("after nothing") {}
    SUBCASE("after Hello") { tool.hello(); }
    SUBCASE("after Preflight") {
      tool.hello();
      Message m = tool.ask(Type::Preflight);
      CHECK(Tool::type(m) == Type::Reasons);
      CHECK(m.reader().get<u32>() == 0);
    }
    SUBCASE("after Quiesce") {
      to_quiesced(tool, subject);
      tool.hang_up();
      subject.expect(kResumed);
    }
    SUBCASE("after Save") {
      to_saved(tool, subject);
      tool.hang_up();
      subject.expect(kResumed);
    }
    SUBCASE("in the middle of a request") {
      to_quiesced(tool, subject);
      u32 header[2] = {100, static_cast<u32>(Type::Save)};
      tool.send_raw(header, sizeof header);
      tool.hang_up();
      subject.expect(kResumed);
    }
    SUBCASE("with Detach under way") {
      to_saved(tool, subject);
      int ends[2];
      REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
      UniqueFd read_end(ends[0]), write_end(ends[1]);
      tool.send(Type::Detach, {}, {read_end.get()});
      tool.hang_up();
      subject.expect({"one.detach", "two.detach"});
      // Whether or not the answer was sent, the outcome pipe has no writer.
      read_end.reset();
      write_end.reset();
      subject.expect(kBack);
    }
  }
  check_running(session, subject);
}

TEST_CASE("a hang-up in the middle of a save undoes everything") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.memory["a"] = std::string(100000, 'x');
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  UniqueFd staging(::memfd_create("ckpt-staging", MFD_CLOEXEC));
  REQUIRE(::ftruncate(staging.get(), 8192) == 0);
  tool.send(Type::Save, Writer().put(u32{2}).put(u32{4096}), {staging.get()});
  for (Type t : {Type::Region, Type::SlotFull, Type::SlotFull}) {
    std::optional<Message> m = tool.receive();
    REQUIRE(m);
    CHECK(Tool::type(*m) == t);
  }
  tool.hang_up();
  subject.expect({"one.save", "two.resume", "one.resume"});
  check_running(session, subject);
}

TEST_CASE("a verb that fails leads back to running, and the error names it") {
  Session session;
  const char *verb = "";
  int which = 1;
  std::vector<std::string> events;
  SUBCASE("first quiesce") {
    verb = "quiesce";
    events = {"one.quiesce", "one.resume"};
  }
  SUBCASE("second quiesce") {
    verb = "quiesce";
    which = 2;
    events = {"one.quiesce", "two.quiesce", "two.resume", "one.resume"};
  }
  SUBCASE("second save") {
    verb = "save";
    which = 2;
    events = {"one.quiesce", "two.quiesce", "one.save", "two.save", "two.resume", "one.resume"};
  }
  SUBCASE("first detach") {
    verb = "detach";
    events = {"one.quiesce", "two.quiesce",      "one.save",   "two.save",
              "one.detach",  "one.attach_again", "two.resume", "one.resume"};
  }
  SUBCASE("second detach") {
    verb = "detach";
    which = 2;
    events = {"one.quiesce", "two.quiesce",      "one.save",         "two.save",   "one.detach",
              "two.detach",  "two.attach_again", "one.attach_again", "two.resume", "one.resume"};
  }
  Subject subject(&session, [&](App &app) {
    (which == 1 ? app.one : app.two).fails_at = verb;
    app.start();
    app.hear();
    app.one.fails_at = "";
    app.two.fails_at = "";
    app.say("mended");
    app.wait_for_end();
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  tool.hello();
  Message answer = tool.ask(Type::Quiesce, Writer().put(u32{1000}));
  if (Tool::type(answer) == Type::Ok) answer = tool.save();
  if (Tool::type(answer) == Type::Saved) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    answer = tool.ask(Type::Detach, {}, {read_end.get()});
  }
  std::string what = Tool::what(answer);
  CHECK(what.starts_with(which == 1 ? "one cannot " : "two cannot "));
  CHECK(what.ends_with(": told to fail"));
  subject.expect(events);
  // The same tool may try again, and it works.
  CHECK(tool.hello() == State::Running);
  subject.tell("mend");
  subject.expect({"mended"});
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
}

TEST_CASE("a participant that cannot attach again is resumed nevertheless") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.fails_at = "attach_again";
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
  check_running(session, subject);
}

TEST_CASE("preflight reports every blocker") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.one.reason = "shared virtual memory";
    app.two.reason = "a native kernel";
    run_idle(app);
  });
  Tool tool = session.connect();
  tool.hello();
  Message m = tool.ask(Type::Preflight);
  Reader in = m.reader();
  CHECK(in.get<u32>() == 2);
  CHECK(in.str() == "shared virtual memory");
  CHECK(in.str() == "a native kernel");
  CHECK(in.done());
}

TEST_CASE("residue of a detach is found and named, and the detach is undone") {
  Session session;
  Session other;
  std::string named;
  std::function<void()> leave;
  SUBCASE("a ring that is mapped") {
    named = "/memfd:ckpt-ring";
    leave = [] {
      UniqueFd ring(::memfd_create("ckpt-ring", MFD_CLOEXEC));
      (void)!::ftruncate(ring.get(), 4096);
      (void)::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, ring.get(), 0);
    };
  }
  SUBCASE("a ring that is open") {
    named = "/memfd:ckpt-ring";
    leave = [] { ::memfd_create("ckpt-ring", MFD_CLOEXEC); };
  }
  SUBCASE("a connection to the session keeper") {
    named = "session.sock";
    leave = [] {
      if (Result<UniqueFd> fd = connect_unix(session_socket())) fd->release();
    };
  }
  SUBCASE("a driver") {
    named = "libpocl-fake.so";
    leave = [&] {
      std::string path = other.folder() + "/libpocl-fake.so.2";
      UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      (void)!::ftruncate(file.get(), 4096);
      (void)::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file.get(), 0);
      ::unlink(path.c_str());
    };
  }
  Subject subject(&session, [&](App &app) {
    app.two.on_detach = leave;
    run_idle(app);
  });
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_saved(tool, subject);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  std::string what = Tool::what(tool.ask(Type::Detach, {}, {read_end.get()}));
  CHECK_MESSAGE(what.find(named) != what.npos, what);
  subject.expect({"one.detach", "two.detach"});
  subject.expect(kBack);
  CHECK(tool.hello() == State::Running);
}

TEST_CASE("a detached process holds no descriptor but its outcome pipe") {
  Session session;
  Subject subject(&session, run_idle);
  subject.expect({"ready"});
  Tool tool = session.connect();
  to_detached(tool, subject);
  int sockets = 0, memfds = 0;
  for (int fd = 0; fd < 256; fd++) {
    char target[256] = "";
    std::string link = fmt::format("/proc/{}/fd/{}", subject.pid(), fd);
    if (::readlink(link.c_str(), target, sizeof target - 1) < 0) continue;
    sockets += fd > 2 && std::string_view(target).starts_with("socket:");
    memfds += std::string_view(target).starts_with("/memfd:");
  }
  CHECK(sockets == 0);
  CHECK(memfds == 0);
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
}
