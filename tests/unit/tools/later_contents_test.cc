// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/later_contents.h"

#include <doctest/doctest.h>

#include <atomic>

#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"

using namespace ckpt;
using namespace ckpt::tools;
using protocol::Type;

namespace {

// The owner's end, and three contents that are to come.
struct Followed {
  UniqueFd owner;
  std::unique_ptr<LaterContents> later;
  std::vector<u64> taken;

  explicit Followed(Result<> outcome = {}) {
    auto ends = socket_pair();
    REQUIRE(ends);
    owner = std::move(ends->first);
    later = std::make_unique<LaterContents>(std::move(ends->second));
    for (u64 at : {10, 20, 30}) later->add({{}, 0, 1, at});
    REQUIRE(later->start([this, outcome](const LaterContents::Due &d) {
      taken.push_back(d.at);
      return outcome;
    }));
  }
  void tell(u64 count) const {
    REQUIRE(
        send_message(owner.get(), static_cast<u16>(Type::Drained), Writer().put(count).bytes()));
  }
};

}  // namespace

TEST_CASE("contents are taken in their order, when they have come") {
  Followed f;
  f.tell(1);
  f.tell(1);
  f.tell(3);
  CHECK(f.later->wait());
  CHECK(f.taken == std::vector<u64>{10, 20, 30});
}

TEST_CASE("an owner that ends early has lost contents") {
  Followed f;
  f.tell(2);
  f.owner.reset();
  Result<> come = f.later->wait();
  REQUIRE(!come);
  CHECK(come.error().what.find("has ended before it had copied all of it") != std::string::npos);
  CHECK(f.taken.size() == 2);
}

TEST_CASE("an owner says why it cannot copy") {
  Followed f;
  REQUIRE(send_message(f.owner.get(), static_cast<u16>(Type::Failed),
                       Writer().str("no room").str("make some").bytes()));
  Result<> come = f.later->wait();
  REQUIRE(!come);
  CHECK(come.error().text().find("no room") != std::string::npos);
  CHECK(f.taken.empty());
}

TEST_CASE("counts that cannot be are refused") {
  for (std::vector<u64> counts : {std::vector<u64>{4}, {2, 1}}) {
    Followed f;
    for (u64 count : counts) f.tell(count);
    CHECK(!f.later->wait());
    CHECK(f.taken.size() == counts.size() * (counts.size() - 1));
  }
  Followed f;
  REQUIRE(send_message(f.owner.get(), static_cast<u16>(Type::Drained)));
  CHECK(!f.later->wait());
}

TEST_CASE("a failure to take contents ends the wait, and so does a cancel") {
  Followed f{fail("the disk is full")};
  f.tell(3);
  CHECK(f.later->wait().error().what == "the disk is full");
  CHECK(f.taken.size() == 1);
  Followed waiting;
  waiting.later->cancel();
  CHECK(!waiting.later->wait());
}

TEST_CASE("drop() returns when the owner has ended") {
  Followed f;
  f.tell(3);
  REQUIRE(f.later->wait());
  std::atomic<bool> ended = false;
  std::thread owner([&] {
    Result<std::optional<Message>> m = receive_message(f.owner.get());
    bool dropped = m && *m && (*m)->type == static_cast<u16>(Type::OwnerDrop);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = dropped;
    f.owner.reset();
  });
  f.later->drop();
  CHECK(ended);
  owner.join();
}
