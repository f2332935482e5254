// SPDX-License-Identifier: Apache-2.0
//
// A Manager that the test controls, and a program that it manages.
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

inline constexpr u32 kGraceMs = 100;  // less than the minimum patience of a client, 3 s

// Serves one program at a time.
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
  // Accepts a program and welcomes it.
  void welcome_next() {
    accept();
    CHECK(heard() == "Join");
    welcome();
  }
  // Whether a program connects within that time.
  bool has_connection(std::chrono::milliseconds soon) {
    pollfd p{listener_.get(), POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(soon.count())) == 1;
  }
  void hang_up() { program_.reset(); }
  void say(const managed::ToProgram &m) {
    REQUIRE(send_message(program_.get(), managed::number_of(m), managed::encode(m).bytes()));
  }
  // The next message but Kind, which is stored in `kind`; monostate: the program hung up.
  managed::ToManager hear() {
    for (;;) {
      Result<std::optional<Message>> m = receive_message(program_.get());
      REQUIRE(m);
      if (!*m) return {};
      Result<managed::ToManager> message = managed::decode_to_manager((*m)->type, (*m)->body);
      REQUIRE(message);
      auto *uses = std::get_if<in::Uses>(&*message);
      if (auto *k = std::get_if<in::Workload>(&*message))
        kind = k->hash;
      else if (uses && (uses->apis & managed::kKnowsDepths) != 0)
        knows_depths = true;
      else
        return *message;
    }
  }
  u64 kind = 0;
  bool knows_depths = false;
  std::string heard() { return managed::name_of(hear()); }
  void welcome() { say(out::Welcome{managed::kVersion, kGraceMs}); }

 private:
  std::string path_;
  UniqueFd listener_, program_;
};

// "ask" asks for 1000 bytes and "free" frees 1000; any other line ends the program, with a Fin.
inline auto program(const std::string &socket) {
  return [socket](App &app) {
    ::setenv(managed::kSocketVariable, socket.c_str(), 1);
    ManagerClient *client = get();
    if (client == nullptr) return app.need(false, "a client");
    client->ready();
    u64 used = 0;
    for (std::string command = app.hear(); command == "ask" || command == "free";
         command = app.hear()) {
      if (command == "free") {
        client->freed(used -= 1000);
        app.say("freed");
        continue;
      }
      Result<u32> ticket = client->ask(1000);
      if (ticket) client->done(*ticket, used += 1000);
      app.say(ticket ? "granted" : "denied");
    }
    client->exiting();
  };
}

inline void expect_later(Subject &subject, const std::string &wanted) {
  std::string event;
  while (event != wanted && event != "(nothing)") event = subject.next();
  CHECK(event == wanted);
}

}  // namespace ckpt::test
