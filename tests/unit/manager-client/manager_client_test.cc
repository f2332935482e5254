// SPDX-License-Identifier: Apache-2.0
//
// The program's side of the Manager.

#include <atomic>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/agent/manager.h"

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace ckpt::test;

TEST_CASE("what is asked before the Manager says welcome is said afterwards") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  subject.tell("ask");
  manager.meet();
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
  manager.meet();
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
  manager.meet();
  subject.tell("ask");
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 1);
  manager.say(out::Credit{2500});
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
  CHECK(std::get<in::CreditReturned>(manager.hear()).used == 3000);
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 5);
  manager.say(out::Credit{2500});
  manager.say(out::GoAhead{5});
  subject.expect({"granted"});
  CHECK(std::get<in::MallocDone>(manager.hear()).used == 4000);
  // Nothing of it was taken: what is freed is told.
  subject.tell("free");
  subject.expect({"freed"});
  CHECK(std::get<in::CudaFree>(manager.hear()).used == 3000);
  subject.tell("ask");
  subject.expect({"granted"});
  manager.say(out::RevokeCredit{});
  CHECK(std::get<in::CreditReturned>(manager.hear()).used == 4000);
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
    ManagerClient *t = get();
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

}  // namespace

TEST_CASE("an API that is started while the program is evicted gets the device that it comes to") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program_of_two_apis(manager.path()));
  manager.meet();
  CHECK(manager.heard() == "Connect");
  manager.say(out::Connect{"GPU-1"});
  hear_until(subject, "it may be evicted");
  manager.say(out::Suspend{""});
  hear_until(subject, "leaving");
  subject.tell("also");
  CHECK(manager.heard() == "SuspendDone");
  manager.say(out::Migrate{"GPU-2"});
  CHECK(manager.heard() == "MigDone");
  CHECK(manager.heard() == "AddApi");
  manager.say(out::ApiAdded{true});
  hear_until(subject, "at GPU-2");
}
