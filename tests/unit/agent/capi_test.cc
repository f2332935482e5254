// SPDX-License-Identifier: Apache-2.0
//
// include/ckpt/ckpt.h, as a program sees it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "ckpt/ckpt.h"
#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

std::string text_of(int code) {
  return code < 0 ? fmt::format("{} {}", code, ckpt_last_error()) : std::to_string(code);
}

int before(void *user, const char **) {
  static_cast<App *>(user)->say("before");
  return 0;
}
void after(void *user, int outcome) {
  static_cast<App *>(user)->say("after " + std::to_string(outcome));
}

// Checkpoints itself into the image named by each line of the test.
void run_checkpointing(App &app) {
  app.start();
  ckpt_on_checkpoint(nullptr, after, &app);
  for (std::string image; !(image = app.hear()).empty();) {
    ckpt_result result{};
    int code = ckpt_checkpoint(image.c_str(), CKPT_OVERWRITE, &result);
    app.say("returned " + text_of(code));
    if (code >= 0)
      app.say(fmt::format("{} {} {}", result.outcome, result.device_bytes,
                          result.seconds > 0 && result.seconds < 60));
  }
}

void grant(Session &session, const std::string &image) {
  Tool asked = session.accept();
  std::optional<Message> m = asked.receive();
  REQUIRE(m);
  CHECK(Tool::type(*m) == Type::CheckpointWanted);
  Reader in = m->reader();
  CHECK(in.get<u32>() == protocol::kVersion);
  CHECK(in.str() == image);
  CHECK(in.get<u32>() == protocol::kOverwrite);
  CHECK(in.done());
  asked.send(Type::Ok);
  CHECK(asked.hung_up());
}

}  // namespace

TEST_CASE("without a session every call fails and no thread is started") {
  Subject subject(nullptr, [](App &app) {
    char memory[8192];
    app.need(!add_participant(&app.one), "no participant");
    app.need(session_socket().empty(), "no session");
    app.need(ckpt_state() == CKPT_NO_AGENT, "no agent");
    app.need(*ckpt_last_error() == 0, "no error yet");
    app.need(ckpt_checkpoint("/tmp/x", 0, nullptr) == CKPT_ERR_NO_SESSION, "checkpoint");
    app.need(std::string(ckpt_last_error()).find("ckpt-run") != std::string::npos, "a hint");
    app.need(ckpt_on_checkpoint(nullptr, nullptr, nullptr) == CKPT_ERR_NO_SESSION, "callbacks");
    app.need(ckpt_exclude(memory, sizeof memory) == CKPT_ERR_NO_SESSION, "exclude");
    app.need(ckpt_include(memory, sizeof memory) == CKPT_ERR_UNKNOWN, "include");
    app.need(ckpt_remove_callbacks(1) == CKPT_ERR_UNKNOWN, "remove");
    app.need(ckpt_state() == CKPT_NO_AGENT, "still no agent");
    app.need(::access("/proc/self/task", F_OK) == 0, "/proc");
    app.say("done");
  });
  subject.expect({"done"});
}

TEST_CASE("a session without its folder is an error") {
  auto gone = std::make_unique<Session>();
  Session *session = gone.get();
  Subject subject(session, [](App &app) {
    app.hear();
    app.need(ckpt_checkpoint("/tmp/x", 0, nullptr) == CKPT_ERR_SYSTEM, "an error");
    app.need(!add_participant(&app.one), "no participant");
    app.say("done");
  });
  gone.reset();
  subject.tell("go");
  subject.expect({"done"});
}

TEST_CASE("invalid arguments are refused") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.need(ckpt_checkpoint(nullptr, 0, nullptr) == CKPT_ERR_INVALID, "no image");
    app.need(ckpt_checkpoint("", 0, nullptr) == CKPT_ERR_INVALID, "empty image");
    app.need(ckpt_checkpoint("x", 16, nullptr) == CKPT_ERR_INVALID, "unknown flag");
    app.need(ckpt_exclude(nullptr, 5) == CKPT_ERR_INVALID, "null");
    app.need(ckpt_exclude(&app, ~size_t{0}) == CKPT_ERR_INVALID, "wraps");
    app.need(ckpt_state() == CKPT_NO_AGENT, "nothing started by bad arguments");
    for (int code = -8; code < 0; code++)
      app.need(*ckpt_strerror(code) && ckpt_strerror(code) != ckpt_strerror(-99), "a text");
    app.need(ckpt_version() == std::string("0.1.0"), "version");
    app.say("done");
  });
  subject.expect({"done"});
}

TEST_CASE("a program checkpoints itself and continues, twice") {
  Session session;
  Subject subject(&session, run_checkpointing);
  subject.expect({"ready"});
  for (int i = 0; i < 2; i++) {
    subject.tell("/tmp/image");
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    to_detached(tool, subject);
    tool.send_outcome(Outcome::Continue);
    subject.expect(kBack);
    subject.expect({"after 0", "returned 0", "0 0 true"});
  }
}

TEST_CASE("a program checkpoints itself, and its copy is restored") {
  Session session, second;
  Subject subject(&session, [](App &app) {
    app.one.memory["a"] = std::string(5000, 'x');
    run_checkpointing(app);
  });
  subject.expect({"ready"});
  subject.tell("/tmp/image");
  grant(session, "/tmp/image");
  auto [tool, keeper] = to_restored(session, second, subject);
  keeper.hello();
  CHECK(keeper.attach(second.socket()) == Type::Ok);
  SUBCASE("to the end") {
    CHECK(Tool::type(keeper.load(tool.saved)) == Type::Ok);
    CHECK(Tool::type(keeper.ask(Type::Resume)) == Type::Ok);
    for (int i = 0; i < 8; i++) subject.next();
    subject.expect({"after 1", "returned 1", "1 5000 true"});
  }
  SUBCASE("and the tool hangs up") {
    keeper.hang_up();
    for (int i = 0; i < 6; i++) subject.next();
    subject.expect({"after 2"});
    std::string returned = subject.next();
    CHECK_MESSAGE(returned.starts_with("returned -5 the tool hung up"), returned);
  }
}

TEST_CASE("the caller learns why a checkpoint failed") {
  Session session;
  Subject subject(&session, run_checkpointing);
  subject.expect({"ready"});
  subject.tell("/tmp/image");
  SUBCASE("refused by the keeper") {
    Tool asked = session.accept();
    asked.receive();
    asked.send(Type::Failed, Writer().str("the image exists").str("use CKPT_OVERWRITE"));
    subject.expect({"returned -4 the image exists (use CKPT_OVERWRITE)"});
  }
  SUBCASE("a malformed answer of the keeper") {
    Tool asked = session.accept();
    asked.receive();
    asked.send(Type::Welcome);
    CHECK(subject.next().starts_with("returned -4 "));
  }
  SUBCASE("refused by the preflight") {
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    tool.hello();
    tool.ask(Type::Preflight);
    Message m = tool.ask(Type::CheckpointFailed, Writer().str("a socket is open").str("close it"));
    CHECK(Tool::type(m) == Type::Ok);
    subject.expect({"returned -4 a socket is open (close it)"});
  }
  SUBCASE("undone, and the keeper reports the reason") {
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    to_quiesced(tool, subject);
    tool.hang_up();
    subject.expect({"two.resume", "one.resume", "after 2"});
    session.connect().ask(Type::CheckpointFailed, Writer().str("disk full").str(""));
    subject.expect({"returned -4 disk full"});
  }
  SUBCASE("undone, and the keeper reports nothing") {
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    to_quiesced(tool, subject);
    tool.hang_up();
    subject.expect({"two.resume", "one.resume", "after 2"});
    subject.expect({"returned -4 the tool hung up before the image was complete"});
  }
  SUBCASE("after detach") {
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    to_detached(tool, subject);
    tool.send_outcome(Outcome::Failed, "CRIU failed");
    subject.expect(kBack);
    subject.expect({"after 2", "returned -4 CRIU failed"});
  }
  SUBCASE("after detach, without an outcome") {
    grant(session, "/tmp/image");
    Tool tool = session.connect();
    to_detached(tool, subject);
    tool.close_outcome_pipe();
    subject.expect(kBack);
    subject.expect({"after 2"});
    std::string returned = subject.next();
    CHECK_MESSAGE(returned.starts_with("returned -4 the tool ended without reporting"), returned);
  }
  // And the next one works.
  subject.tell("/tmp/image");
  grant(session, "/tmp/image");
  Tool tool = session.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
  subject.expect({"after 0", "returned 0"});
}

TEST_CASE("a keeper that dies during ckpt_checkpoint() is an error") {
  auto session = std::make_unique<Session>();
  Subject subject(session.get(), run_checkpointing);
  subject.expect({"ready"});
  subject.tell("/tmp/image");
  grant(*session, "/tmp/image");
  session.reset();
  std::string returned = subject.next();
  CHECK_MESSAGE(returned.find("has ended") != returned.npos, returned);
}

TEST_CASE("a second concurrent call fails as busy; a relative path is made absolute") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.start();
    if (::chdir("/tmp") != 0) return;
    std::thread first([&] {
      int code = ckpt_checkpoint("image", CKPT_OVERWRITE, nullptr);
      app.need(code == CKPT_CONTINUED, "the first goes on");
    });
    app.hear();
    app.need(ckpt_checkpoint("other", 0, nullptr) == CKPT_ERR_BUSY, "busy");
    app.say("busy");
    first.join();
    app.say("done");
    app.wait_for_end();
  });
  subject.expect({"ready"});
  grant(session, "/tmp/image");
  subject.tell("go");
  subject.expect({"busy"});
  Tool tool = session.connect();
  to_detached(tool, subject);
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
  subject.expect({"done"});
}

TEST_CASE("callbacks run in order, may refuse, and can be removed") {
  static App *g_app;
  static std::atomic<int> g_refuse;
  Session session;
  Subject subject(&session, [](App &app) {
    g_app = &app;
    app.start();
    int first = ckpt_on_checkpoint(before, after, &app);
    ckpt_on_checkpoint(
        [](void *, const char **reason) {
          g_app->need(ckpt_state() == CKPT_RUNNING, "devices are still usable");
          g_app->need(ckpt_checkpoint("x", 0, nullptr) == CKPT_ERR_IN_CALLBACK, "no nesting");
          g_app->say("second before");
          *reason = "in a transaction";
          return g_refuse.load();
        },
        [](void *, int outcome) { g_app->say("second after " + std::to_string(outcome)); },
        nullptr);
    g_refuse = 1;
    app.say("refusing");
    app.hear();
    g_refuse = 0;
    app.say("agreeing");
    app.hear();
    app.need(ckpt_remove_callbacks(first) == 0, "removed");
    app.need(ckpt_remove_callbacks(first) == CKPT_ERR_UNKNOWN, "removed once");
    app.say("removed");
    app.wait_for_end();
  });
  subject.expect({"ready", "refusing"});
  Tool tool = session.connect();
  tool.hello();
  CHECK(Tool::what(tool.ask(Type::Quiesce, Writer().put(u32{1000}))) ==
        "the program refuses the checkpoint: in a transaction");
  subject.expect({"before", "second before", "after 2"});
  subject.tell("agree");
  subject.expect({"agreeing"});
  CHECK(tool.quiesce() == Type::Ok);
  subject.expect({"before", "second before", "one.quiesce", "two.quiesce"});
  tool.save();
  tool.detach();
  tool.send_outcome(Outcome::Continue);
  subject.expect({"one.save", "two.save", "one.detach", "two.detach"});
  subject.expect(kBack);
  subject.expect({"second after 0", "after 0"});
  subject.tell("remove");
  subject.expect({"removed"});
  Tool again = session.connect();
  again.hello();
  CHECK(again.quiesce() == Type::Ok);
  subject.expect({"second before", "one.quiesce", "two.quiesce"});
}

TEST_CASE("removing a running callback waits until it returns") {
  static App *g_app;
  static std::atomic<bool> g_inside;
  Session session;
  Subject subject(&session, [](App &app) {
    g_app = &app;
    int id = ckpt_on_checkpoint(
        [](void *, const char **) {
          g_inside = true;
          g_app->say("inside");
          g_app->hear();
          g_inside = false;
          return 0;
        },
        nullptr, nullptr);
    while (!g_inside) std::this_thread::yield();
    app.need(ckpt_remove_callbacks(id) == 0, "removed");
    app.need(!g_inside, "it has ended");
    app.say("removed");
    app.wait_for_end();
  });
  Tool tool = session.connect();
  tool.hello();
  tool.send(Type::Quiesce, Writer().put(u32{1000}));
  subject.expect({"inside"});
  ::usleep(50000);
  subject.tell("go on");
  subject.expect({"removed"});
  CHECK(Tool::type(*tool.receive()) == Type::Ok);
}

TEST_CASE("ckpt_state() follows the life cycle") {
  Session session;
  Subject subject(&session, [](App &app) {
    app.start();
    while (!app.hear().empty()) app.say(std::to_string(ckpt_state()));
  });
  subject.expect({"ready"});
  auto state = [&] {
    subject.tell("state?");
    return subject.next();
  };
  CHECK(state() == "1");
  Tool tool = session.connect();
  to_quiesced(tool, subject);
  CHECK(state() == "2");
  tool.save();
  subject.expect({"one.save", "two.save"});
  CHECK(state() == "3");
  tool.detach();
  subject.expect({"one.detach", "two.detach"});
  CHECK(tool.hung_up());
  CHECK(state() == "4");
  tool.send_outcome(Outcome::Continue);
  subject.expect(kBack);
}
