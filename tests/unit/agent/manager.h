// SPDX-License-Identifier: Apache-2.0
//
// A Manager by hand, and a program that has one.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdlib>

#include <doctest/doctest.h>

#include "manager-client/manager_client.h"
#include "tests/unit/agent/fake.h"

namespace ckpt::test {

using namespace manager_client;

namespace in = managed::to_manager;
namespace out = managed::to_program;

inline constexpr u32 kGraceMs = 100;  // less than the least patience of a program: 3 s

// Speaks with one program at a time.
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
  // A program comes, and is welcome.
  void meet() {
    accept();
    CHECK(heard() == "Join");
    welcome();
  }
  // Somebody connects, within that time.
  bool is_wanted(std::chrono::milliseconds soon) {
    pollfd p{listener_.get(), POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(soon.count())) == 1;
  }
  void hang_up() { program_.reset(); }
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
      if (auto *k = std::get_if<in::Workload>(&*message))
        kind = k->hash;
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
inline auto program(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    ManagerClient *t = get();
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

inline void hear_until(Subject &subject, const std::string &wanted) {
  std::string event;
  while (event != wanted && event != "(nothing)") event = subject.next();
  CHECK(event == wanted);
}

}  // namespace ckpt::test
