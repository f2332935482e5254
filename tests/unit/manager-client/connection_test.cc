// SPDX-License-Identifier: Apache-2.0
//
// A program, and a Manager that does not want it, or that is none; and what it says of its
// troubles.
#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/agent/manager.h"

using namespace ckpt;
using namespace ckpt::manager_client;
using namespace ckpt::test;
using std::chrono::milliseconds;

namespace {

// What a program says to its user.
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

// Takes all connections, and hangs up, perhaps after a word of welcome.
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

// Has its device from the Manager, and may be evicted.
auto program_with_a_device(const std::string &socket, const std::string &cannot_leave = {}) {
  return [=](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    ManagerClient *t = get();
    if (t == nullptr) return app.need(false, "a tenant");
    app.need(t->connect(0, false).gpu == "GPU-1", "the device");
    app.one.reason = cannot_leave;
    app.start();
    t->ready();
    app.say("it may be evicted");
    for (std::string word = app.hear(); !word.empty(); word = app.hear()) {
      if (word == "no return") app.two.fails_at = "attach";
      if (word == "return") app.two.fails_at = "";
      if (word == "ask") app.need(t->ask(1000).has_value(), "memory");
      app.say("done: " + word);
    }
  };
}

void give_device(Manager &manager, Subject &subject) {
  manager.meet();
  CHECK(manager.heard() == "Connect");
  manager.say(out::Connect{"GPU-1"});
  hear_until(subject, "it may be evicted");
}

void tell(Subject &subject, const std::string &word) {
  subject.tell(word);
  hear_until(subject, "done: " + word);
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
  CHECK(log.count("error: the Manager refuses this program: it speaks another version") == 1);
  CHECK(log.count("what to do: use one version of ckpt") == 1);
  // Nobody is asked, and no other Manager is looked for.
  subject.tell("ask");
  subject.expect({"granted"});
  CHECK_FALSE(manager.is_wanted(milliseconds(2500)));
  subject.tell("end");
}

TEST_CASE("an evicted program that is refused comes back by itself") {
  Session session;
  Log log(session);
  Manager manager(session);
  Subject subject(&session, program_with_a_device(manager.path()));
  give_device(manager, subject);
  manager.say(out::Suspend{""});
  CHECK(manager.heard() == "SuspendDone");
  manager.say(out::Refused{"its user is not served any longer", "ckptd --users"});
  hear_until(subject, "two.resume");
  tell(subject, "ask");
  CHECK(log.count("the Manager refuses this program") == 1);
}

TEST_CASE("who takes connections and hangs up is no Manager") {
  Session session;
  Log log(session);
  Fickle fickle(session, false);
  Subject subject(&session, program(fickle.path()));
  subject.tell("ask");
  subject.expect({"granted"});
  CHECK(fickle.connections() <= 3);
  CHECK(log.count("no Manager: ") == 1);
  CHECK(log.count("the program goes on without") == 1);
  subject.tell("end");
}

TEST_CASE("a Manager that was there and hangs up on everybody is waited for as if it were gone") {
  Session session;
  Log log(session);
  Manager manager(session);
  Subject subject(&session, program(manager.path()));
  manager.meet();
  subject.tell("ask");
  CHECK(manager.heard() == "CudaMalloc");
  int times = 0;
  for (manager.hang_up(); times < 20 && manager.is_wanted(milliseconds(400)); times++) {
    manager.accept();
    manager.hang_up();
  }
  CHECK(times >= 1);
  CHECK(times <= 5);  // in 100 ms
  subject.expect({"granted"});
  subject.tell("end");
}

TEST_CASE("nor does a program spin with one that says welcome and hangs up") {
  Session session;
  Fickle fickle(session, true);
  Subject subject(&session, program(fickle.path()));
  std::this_thread::sleep_for(milliseconds(600));
  CHECK(fickle.connections() >= 2);
  CHECK(fickle.connections() <= 13);
  subject.tell("end");
}

TEST_CASE(
    "why a program cannot leave or come back is said once, and the Manager hears it in short") {
  Session session;
  Log log(session);
  Manager manager(session);
  std::string long_reason(20'000, 'x');
  SUBCASE("leave") {
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
  SUBCASE("come back") {
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
    CHECK(log.count("warning: this program cannot come back yet: ") == 1);
  }
}
