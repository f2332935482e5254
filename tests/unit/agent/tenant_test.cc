// SPDX-License-Identifier: Apache-2.0
//
// The program's side of the Manager, and a Manager by hand.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "agent/tenant.h"
#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;
namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

constexpr u32 kGraceMs = 100;  // less than the least patience of a program: 3 s

class Manager {
 public:
  explicit Manager(const Session &session) : path_(session.folder() + "/manager.sock") {
    Result<UniqueFd> listener = listen_unix(path_);
    REQUIRE(listener);
    listener_ = std::move(*listener);
  }
  ~Manager() { ::unlink(path_.c_str()); }
  const std::string &path() const { return path_; }

  void accept() {
    pollfd p{listener_.get(), POLLIN, 0};
    REQUIRE(::poll(&p, 1, 20'000) == 1);
    Result<UniqueFd> fd = accept_unix(listener_.get());
    REQUIRE(fd);
    program_ = std::move(*fd);
    REQUIRE(set_receive_timeout(program_.get(), std::chrono::seconds(20)));
  }
  void say(const managed::ToProgram &m) {
    REQUIRE(send_message(program_.get(), managed::number_of(m), managed::encode(m).bytes()));
  }
  // The next message but Kind, which is in `kind` then; monostate: it hung up.
  managed::ToManager hear() {
    for (;;) {
      Result<std::optional<Message>> m = receive_message(program_.get());
      REQUIRE(m);
      if (!*m) return {};
      Result<managed::ToManager> message = managed::decode_to_manager((*m)->type, (*m)->body);
      REQUIRE(message);
      if (auto *k = std::get_if<in::Kind>(&*message))
        kind = k->kind;
      else
        return *message;
    }
  }
  u64 kind = 0;
  std::string heard() { return managed::name_of(hear()); }
  void welcome() { say(out::Welcome{managed::kVersion, kGraceMs}); }

 private:
  std::string path_;
  UniqueFd listener_, program_;
};

// "ask" asks for memory, "free" gives the last of it back, anything else ends it, with a Fin.
auto program(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    Tenant *t = tenant();
    if (t == nullptr) return app.need(false, "a tenant");
    t->ready();
    u64 used = 0;
    for (std::string word = app.hear(); word == "ask" || word == "free"; word = app.hear()) {
      if (word == "free") {
        t->freed(used -= 1000);
        app.say("freed");
        continue;
      }
      Result<u32> ticket = t->ask(1000);
      if (ticket) t->done(*ticket, used += 1000);
      app.say(ticket ? "granted" : "denied");
    }
    t->fin();
  };
}

}  // namespace

TEST_CASE("what is asked before the Manager says welcome is said afterwards") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  subject.tell("ask");
  manager.accept();
  CHECK(manager.heard() == "Join");
  manager.welcome();
  managed::ToManager asked = manager.hear();
  REQUIRE(std::get_if<in::CudaMalloc>(&asked) != nullptr);
  CHECK(std::get<in::CudaMalloc>(asked) == in::CudaMalloc{1, 1000});
  CHECK(manager.kind != 0);  // what runs here, which was told before
  manager.say(out::GoAhead{1});
  subject.expect({"granted"});
  CHECK(manager.heard() == "MallocDone");
  subject.tell("end");
}

TEST_CASE("a Manager that does not answer is given up, and found again") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.accept();
  CHECK(manager.heard() == "Join");
  manager.welcome();
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  CHECK(manager.heard() == "Ping");
  manager.say(out::Pong{});
  CHECK(manager.heard() == "Ping");  // and now it is silent
  subject.expect({"granted"});
  CHECK(manager.heard() == "nothing");
  // It takes connections, and says nothing: nobody waits for it.
  subject.tell("ask");
  subject.expect({"granted"});
  manager.accept();
  CHECK(manager.heard() == "Join");
  subject.tell("ask");
  subject.expect({"granted"});
  // Once it speaks, it hears what has changed meanwhile, and is asked.
  manager.welcome();
  CHECK(std::get<in::Join>(manager.hear()).used == 3000);
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  manager.say(out::OutOfMemory{4, "no"});
  subject.expect({"denied"});
  subject.tell("end");
}

TEST_CASE("what was given ahead is taken without a question, and given back when it is wanted") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.accept();
  CHECK(manager.heard() == "Join");
  manager.welcome();
  subject.tell("ask");
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 1);
  manager.say(out::Ahead{2500});
  manager.say(out::GoAhead{1});
  subject.expect({"granted"});
  CHECK(std::get<in::MallocDone>(manager.hear()).used == 1000);
  // Twice, and once more what was freed.
  for (const char *word : {"ask", "ask", "free", "ask"}) {
    subject.tell(word);
    subject.expect({word == std::string("ask") ? "granted" : "freed"});
  }
  // Then it does not suffice: all of it is told, and this is asked for.
  subject.tell("ask");
  CHECK(std::get<in::AheadBack>(manager.hear()).used == 3000);
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 5);
  manager.say(out::Ahead{2500});
  manager.say(out::GoAhead{5});
  subject.expect({"granted"});
  CHECK(std::get<in::MallocDone>(manager.hear()).used == 4000);
  // Nothing of it was taken: what is freed is told.
  subject.tell("free");
  subject.expect({"freed"});
  CHECK(std::get<in::CudaFree>(manager.hear()).used == 3000);
  subject.tell("ask");
  subject.expect({"granted"});
  manager.say(out::Recall{});
  CHECK(std::get<in::AheadBack>(manager.hear()).used == 4000);
  subject.tell("ask");
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 7);
  manager.say(out::OutOfMemory{7, "no"});
  subject.expect({"denied"});
  subject.tell("end");
  CHECK(std::get<in::Fin>(manager.hear()).peak == 4000);  // what it took ahead, too
}

namespace {

// Uses CUDA, and OpenCL when it is told to; its eviction lasts until a moment after that.
auto program_of_two_apis(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    Tenant *t = tenant();
    if (t == nullptr) return app.need(false, "a tenant");
    app.need(t->connect(0, false).gpu == "GPU-1", "the first device");
    std::atomic<bool> asks{false};
    app.one.on_quiesce = [&] {
      app.say("leaving");
      while (!asks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    app.start();
    t->ready();
    app.say("it may be evicted");
    app.need(app.hear() == "also", "a word");
    asks = true;
    app.say("at " + t->connect(0, false, managed::kOpenCl).gpu);
    app.wait_for_end();
  };
}

void hear_until(Subject &subject, const std::string &wanted) {
  std::string event;
  while (event != wanted && event != "(nothing)") event = subject.next();
  CHECK(event == wanted);
}

}  // namespace

TEST_CASE("an API that is started while the program is evicted gets the device that it comes to") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program_of_two_apis(manager.path()));
  manager.accept();
  CHECK(manager.heard() == "Join");
  manager.welcome();
  CHECK(manager.heard() == "Connect");
  manager.say(out::Connect{"GPU-1"});
  hear_until(subject, "it may be evicted");
  manager.say(out::Suspend{""});
  hear_until(subject, "leaving");
  subject.tell("also");
  CHECK(manager.heard() == "SuspendDone");
  manager.say(out::Migrate{"GPU-2"});
  CHECK(manager.heard() == "MigDone");
  CHECK(manager.heard() == "AlsoUses");
  manager.say(out::Also{true});
  hear_until(subject, "at GPU-2");
}
