// SPDX-License-Identifier: Apache-2.0
//
// The dialogue of a program with its Manager.
#include <atomic>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/manager-client/fake_manager.h"

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace ckpt::test;

TEST_CASE("a request made before the Welcome is sent after it") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  subject.tell("ask");
  manager.welcome_next();
  managed::ToManager asked = manager.hear();
  REQUIRE(std::get_if<in::CudaMalloc>(&asked) != nullptr);
  CHECK(std::get<in::CudaMalloc>(asked) == in::CudaMalloc{1, 1000});
  CHECK(manager.kind != 0);  // sent before the request
  manager.say(out::GoAhead{1});
  subject.expect({"granted"});
  CHECK(manager.heard() == "MallocDone");
  subject.tell("end");
}

TEST_CASE("a Manager that does not answer is given up, and accepted again later") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.welcome_next();
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  CHECK(manager.heard() == "Ping");
  manager.say(out::Pong{});
  CHECK(manager.heard() == "Ping");  // and now it is silent
  subject.expect({"granted"});
  CHECK(manager.heard() == "nothing");
  // It accepts connections and says nothing: no thread waits for it.
  subject.tell("ask");
  subject.expect({"granted"});
  manager.accept();
  CHECK(manager.heard() == "Join");
  subject.tell("ask");
  subject.expect({"granted"});
  // When it welcomes the program, it hears what has changed meanwhile, and is asked again.
  manager.welcome();
  CHECK(std::get<in::Join>(manager.hear()).used == 3000);
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  manager.say(out::OutOfMemory{4, "no"});
  subject.expect({"denied"});
  subject.tell("end");
}

TEST_CASE("a credit is used without requests, and returned when it is revoked") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.welcome_next();
  subject.tell("ask");
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 1);
  manager.say(out::Credit{2500});
  manager.say(out::GoAhead{1});
  subject.expect({"granted"});
  CHECK(std::get<in::MallocDone>(manager.hear()).used == 1000);
  // Two allocations, and a third one out of what was freed.
  for (const char *command : {"ask", "ask", "free", "ask"}) {
    subject.tell(command);
    subject.expect({command == std::string("ask") ? "granted" : "freed"});
  }
  // Then the credit does not suffice: it is returned, and the Manager is asked.
  subject.tell("ask");
  CHECK(std::get<in::CreditReturned>(manager.hear()).used == 3000);
  CHECK(std::get<in::CudaMalloc>(manager.hear()).ticket == 5);
  manager.say(out::Credit{2500});
  manager.say(out::GoAhead{5});
  subject.expect({"granted"});
  CHECK(std::get<in::MallocDone>(manager.hear()).used == 4000);
  // Nothing was allocated out of the new credit, so memory that is freed is reported.
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
  CHECK(std::get<in::Fin>(manager.hear()).peak == 4000);  // with allocations out of the credit
}

namespace {

// Uses CUDA, and OpenCL when it is told to. Its eviction ends shortly after that.
auto program_of_two_apis(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    ManagerClient *client = get();
    if (client == nullptr) return app.need(false, "a client");
    app.need(client->connect(0, false).gpu == "GPU-1", "the first device");
    std::atomic<bool> asks{false};
    app.one.on_quiesce = [&] {
      app.say("leaving");
      while (!asks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    app.start();
    client->ready();
    app.say("it may be evicted");
    app.need(app.hear() == "also", "the command");
    asks = true;
    app.say("at " + client->connect(0, false, managed::kOpenCl).gpu);
    app.wait_for_end();
  };
}

}  // namespace

TEST_CASE("an API that is started during an eviction gets the GPU that the program resumes on") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program_of_two_apis(manager.path()));
  manager.welcome_next();
  CHECK(manager.heard() == "Connect");
  manager.say(out::Connect{"GPU-1"});
  expect_later(subject, "it may be evicted");
  manager.say(out::Suspend{""});
  expect_later(subject, "leaving");
  subject.tell("also");
  CHECK(manager.heard() == "SuspendDone");
  manager.say(out::Migrate{"GPU-2"});
  CHECK(manager.heard() == "MigDone");
  CHECK(manager.heard() == "AddApi");
  manager.say(out::ApiAdded{true});
  expect_later(subject, "at GPU-2");
}

namespace {

auto program_with_depths(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    app.one.has_depths = true;
    ManagerClient *client = get();
    if (client == nullptr) return app.need(false, "a client");
    app.need(client->connect(0, false).gpu == "GPU-1", "the first device");
    app.start();
    client->ready();
    app.say("it may be evicted");
    app.wait_for_end();
  };
}

}  // namespace

TEST_CASE("an evicted program tells what stays, and gives it back when it is told to") {
  Session session;
  Manager manager(session);
  Subject subject(&session, program_with_depths(manager.path()));
  manager.welcome_next();
  CHECK(manager.heard() == "Connect");
  CHECK(manager.knows_depths);
  manager.say(out::Connect{"GPU-1"});
  expect_later(subject, "it may be evicted");
  manager.say(out::SuspendMemory{""});
  CHECK(std::get<in::Evicted>(manager.hear()).gpu == "GPU-1");
  expect_later(subject, "one.release_memory");
  manager.say(out::Deepen{});
  CHECK(std::get<in::Evicted>(manager.hear()).gpu.empty());
  expect_later(subject, "one.detach");
  manager.say(out::Migrate{"GPU-1"});
  CHECK(manager.heard() == "MigDone");
  // The rest goes with the memory where it is told to leave as always.
  manager.say(out::Suspend{""});
  CHECK(manager.heard() == "SuspendDone");
  expect_later(subject, "one.detach");
  manager.say(out::Deepen{});
  CHECK(std::get<in::Evicted>(manager.hear()).gpu.empty());
}
