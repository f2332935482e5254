// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/keeper_link.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <thread>

#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
using namespace tools;
using protocol::Type;
namespace {

// A keeper that gives one answer to each of the requests, or hangs up at the end of its answers.
class FakeKeeper {
 public:
  explicit FakeKeeper(std::vector<std::pair<Type, std::string>> answers) {
    target.keeper = ::getpid();
    target.session_socket = folder_ / "session.sock";
    listener_ = must(listen_unix(target.session_socket));
    thread_ = std::thread([this, answers = std::move(answers)] {
      Result<UniqueFd> client = accept_unix(listener_.get());
      for (const auto &[type, text] : answers) {
        Result<std::optional<Message>> m = receive_message(client->get());
        if (!m || !*m) return;
        requests.push_back(std::move(**m));
        Writer body;
        if (!text.empty()) body.str(text);
        (void)send_message(client->get(), static_cast<u16>(type), body.bytes());
      }
      Result<std::optional<Message>> unanswered = receive_message(client->get());
    });
  }
  ~FakeKeeper() { ended(); }
  void ended() {
    if (thread_.joinable()) thread_.join();
  }

  Target target;
  std::vector<Message> requests;

 private:
  TempFolder folder_;
  UniqueFd listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("the keeper learns of a dump when it begins, and of its end with the new machine") {
  FakeKeeper keeper({{Type::Ok, ""}, {Type::Ok, ""}});
  KeeperLink link;
  REQUIRE(link.announce(keeper.target, "/a/job.img"));
  REQUIRE(link.tell_end("/a/job.img", "node2"));
  CHECK(link.descriptor() >= 0);
  link.close();
  keeper.ended();
  REQUIRE(keeper.requests.size() == 2);
  CHECK(static_cast<Type>(keeper.requests[0].type) == Type::DumpBegin);
  Reader begun = keeper.requests[0].reader();
  CHECK(begun.str() == "/a/job.img");
  CHECK(static_cast<Type>(keeper.requests[1].type) == Type::DumpDone);
  Reader done = keeper.requests[1].reader();
  CHECK(done.str() == "/a/job.img");
  CHECK(done.str() == "node2");
}

TEST_CASE("what the keeper says against a dump is its error") {
  FakeKeeper keeper({{Type::Failed, "another dump is under way"}});
  KeeperLink link;
  Result<> announced = link.announce(keeper.target, "/a/job.img");
  REQUIRE_FALSE(announced);
  CHECK(announced.error().what == "another dump is under way");
  link.close();
}

TEST_CASE("a keeper that hangs up is an error, not a wait") {
  FakeKeeper keeper({});
  KeeperLink link;
  Result<> announced = link.announce(keeper.target, "/a/job.img");
  REQUIRE_FALSE(announced);
  CHECK(announced.error().what.find("without an answer") != std::string::npos);
}

}  // namespace ckpt::test
