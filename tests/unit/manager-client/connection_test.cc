// SPDX-License-Identifier: Apache-2.0
//
// A Manager that refuses the program or keeps hanging up, and what the program logs.
#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/manager-client/fake_manager.h"

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace ckpt::test;
using std::chrono::milliseconds;

namespace {

// The log of the program.
class Log {
 public:
  explicit Log(const Session &session) : path_(session.folder() + "/log") {
    ::setenv("CKPT_LOG_FILE", path_.c_str(), 1);
  }
  ~Log() {
    ::unsetenv("CKPT_LOG_FILE");
    ::unlink(path_.c_str());
  }
  size_t count(const std::string &what) const {
    std::ifstream in(path_);
    std::string all{std::istreambuf_iterator<char>(in), {}};
    size_t n = 0;
    for (size_t at = all.find(what); at != all.npos; at = all.find(what, at + 1)) n++;
    return n;
  }

 private:
  std::string path_;
};

// Accepts all connections and hangs up, perhaps after a Welcome.
class Fickle {
 public:
  Fickle(const Session &session, bool welcomes)
      : path_(session.folder() + "/fickle.sock"), welcomes_(welcomes) {
    Result<UniqueFd> listener = listen_unix(path_);
    REQUIRE(listener);
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { run(); });
  }
  ~Fickle() {
    over_ = true;
    thread_.join();
    ::unlink(path_.c_str());
  }
  const std::string &path() const { return path_; }
  int connections() const { return connections_; }

 private:
  void run() {
    managed::ToProgram welcome = out::Welcome{managed::kVersion, kGraceMs};
    for (pollfd p{listener_.get(), POLLIN, 0}; !over_;) {
      if (::poll(&p, 1, 20) != 1) continue;
      Result<UniqueFd> fd = accept_unix(listener_.get());
      if (!fd) continue;
      connections_++;
      if (!welcomes_) continue;
      (void)receive_message(fd->get());
      (void)send_message(fd->get(), managed::number_of(welcome), managed::encode(welcome).bytes());
    }
  }

  std::string path_;
  bool welcomes_;
  UniqueFd listener_;
  std::atomic<bool> over_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

// Gets its device from the Manager and can be evicted.
auto program_with_a_device(const std::string &socket, const std::string &blocker = {}) {
  return [=](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    ManagerClient *client = get();
    if (client == nullptr) return app.need(false, "a client");
    app.need(client->connect(0, false).gpu == "GPU-1", "the device");
    app.one.reason = blocker;
    app.start();
    client->ready();
    app.say("it may be evicted");
    for (std::string command = app.hear(); !command.empty(); command = app.hear()) {
      if (command == "no return") app.two.fails_at = "attach";
      if (command == "return") app.two.fails_at = "";
      if (command == "ask") app.need(client->ask(1000).has_value(), "memory");
      app.say("done: " + command);
    }
  };
}

void give_device(Manager &manager, Subject &subject) {
  manager.welcome_next();
  CHECK(manager.heard() == "Connect");
  manager.say(out::Connect{"GPU-1"});
  expect_later(subject, "it may be evicted");
}

void tell(Subject &subject, const std::string &command) {
  subject.tell(command);
  expect_later(subject, "done: " + command);
}

}  // namespace

TEST_CASE("a program that is refused is told why, and runs unmanaged") {
  Session session;
  Log log(session);
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  subject.tell("ask");
  manager.accept();
  CHECK(manager.heard() == "Join");
  manager.say(out::Refused{"it speaks another version", "use one version of ckpt"});
  subject.expect({"granted"});
  CHECK(manager.heard() == "nothing");
  CHECK(log.count(
            "manager-client: error: the Manager refuses this program: it speaks another version") ==
        1);
  CHECK(log.count("what to do: use one version of ckpt") == 1);
  // From now on nothing is asked, and no other Manager is sought.
  subject.tell("ask");
  subject.expect({"granted"});
  CHECK_FALSE(manager.has_connection(milliseconds(2500)));
  subject.tell("end");
}

TEST_CASE("an evicted program that is refused resumes by itself") {
  Session session;
  Log log(session);
  Manager manager(session);
  Subject subject(&session, program_with_a_device(manager.path()));
  give_device(manager, subject);
  manager.say(out::Suspend{""});
  CHECK(manager.heard() == "SuspendDone");
  manager.say(out::Refused{"its user is not served any longer", "ckptd --users"});
  expect_later(subject, "two.resume");
  tell(subject, "ask");
  CHECK(log.count("the Manager refuses this program") == 1);
}

TEST_CASE("a server that accepts connections and hangs up does not count as a Manager") {
  Session session;
  Log log(session);
  Fickle fickle(session, false);
  Subject subject(&session, program(fickle.path()));
  subject.tell("ask");
  subject.expect({"granted"});
  CHECK(fickle.connections() <= 3);
  CHECK(log.count("no Manager: ") == 1);
  CHECK(log.count("the program continues without") == 1);
  subject.tell("end");
}

TEST_CASE(
    "a Manager that starts to hang up on all connections is given up after the grace period") {
  Session session;
  Log log(session);
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.welcome_next();
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  int times = 0;
  for (manager.hang_up(); times < 20 && manager.has_connection(milliseconds(400)); times++) {
    manager.accept();
    manager.hang_up();
  }
  CHECK(times >= 1);
  CHECK(times <= 5);  // in 100 ms
  subject.expect({"granted"});
  subject.tell("end");
}

TEST_CASE("a client waits between attempts if the Manager welcomes it and hangs up") {
  Session session;
  Fickle fickle(session, true);
  Subject subject(&session, program(fickle.path()));
  std::this_thread::sleep_for(milliseconds(600));
  CHECK(fickle.connections() >= 2);
  CHECK(fickle.connections() <= 13);
  subject.tell("end");
}

TEST_CASE("a failed eviction is logged once, and reported to the Manager in short") {
  Session session;
  Log log(session);
  Manager manager(session);
  std::string long_reason(20'000, 'x');
  SUBCASE("suspend") {
    Subject subject(&session, program_with_a_device(manager.path(), long_reason));
    give_device(manager, subject);
    for (int i = 0; i < 2; i++) {
      manager.say(out::Suspend{""});
      managed::ToManager failed = manager.hear();
      REQUIRE(std::get_if<in::Failed>(&failed) != nullptr);
      CHECK(std::get<in::Failed>(failed).what.size() == managed::kMaxReasonBytes);
    }
    CHECK(log.count("warning: this program cannot be evicted: ") == 1);
  }
  SUBCASE("resume") {
    Subject subject(&session, program_with_a_device(manager.path()));
    give_device(manager, subject);
    tell(subject, "no return");
    manager.say(out::Suspend{""});
    CHECK(manager.heard() == "SuspendDone");
    for (int i = 0; i < 2; i++) {
      manager.say(out::Migrate{"GPU-1"});
      CHECK(manager.heard() == "Failed");
    }
    tell(subject, "return");
    manager.say(out::Migrate{"GPU-1"});
    CHECK(manager.heard() == "MigDone");
    CHECK(log.count("warning: this program cannot resume yet: ") == 1);
  }
}
