// SPDX-License-Identifier: Apache-2.0
//
// Credit: memory that a program may allocate without asking.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

// A GPU of 100 bytes, of which each context takes 10.
struct Generous : Node {
  Generous() : Node(settings(), {100}) { start(1, 0, 10); }
  static Settings settings() {
    Settings s;
    s.min_residency = Time{0};
    s.context_bytes = 10;
    s.credit_bytes = 20;
    return s;
  }
  // Program 1 has 10 bytes, and a credit of 20.
  void give() {
    CHECK(told(say(1, in::CudaMalloc{5, 10})) == Told{"1 Credit", "1 GoAhead 5"});
    take(0, 10);
    CHECK(told(say(1, in::MallocDone{5, 10})).empty());
  }
  u64 reserved() const { return policy.accounting().gpus[0].reserved; }
};

}  // namespace

TEST_CASE("credit is granted with a request where memory is plentiful") {
  Generous n;
  n.give();
  // It stays reserved, however much of it is in use.
  CHECK(n.reserved() == 20);
  n.take(0, 20);
  CHECK(n.reserved() == 20);
  CHECK(told(n.say(1, in::CudaMalloc{6, 10})) == Told{"1 GoAhead 6"});
}

TEST_CASE("no credit is granted where memory is short or a program waits") {
  Generous n;
  CHECK(told(n.say(1, in::CudaMalloc{5, 50})) == Told{"1 GoAhead 5"});
  Generous m;
  m.join(2);
  m.say(2, in::Connect{85, false});
  CHECK(told(m.say(1, in::CudaMalloc{5, 10})) == Told{"1 GoAhead 5"});
}

TEST_CASE("credit is revoked before a program is evicted") {
  Generous n;
  n.start(2, 0, 10);
  n.give();
  // 70 are free, 20 of them promised.
  CHECK(told(n.say(2, in::CudaMalloc{6, 60})) == Told{"1 RevokeCredit"});
  n.take(0, 5);  // program 1 uses 5 bytes of its credit
  CHECK(told(n.say(1, in::CreditReturned{15})) == Told{"2 GoAhead 6"});
  CHECK(n.at(1).used == 15);
  CHECK(n.reserved() == 60);
}

TEST_CASE("credit that is not returned in time is not waited for") {
  Generous n;
  n.start(2, 0, 10);
  n.give();
  CHECK(told(n.say(2, in::CudaMalloc{6, 60})) == Told{"1 RevokeCredit"});
  CHECK(told(n.after(std::chrono::seconds(29))).empty());
  CHECK(told(n.after(std::chrono::seconds(31))) == Told{"2 Suspend"});
}

TEST_CASE("credit is revoked for a program that waits for a GPU, too") {
  Generous n;
  n.give();
  n.join(2);
  // 80 are free, 20 of them promised.
  CHECK(told(n.say(2, in::Connect{65, false})) == Told{"1 RevokeCredit"});
  CHECK(told(n.say(1, in::CreditReturned{10})) == Told{"2 Connect GPU0"});
}

TEST_CASE("a program loses its credit when it leaves its GPU") {
  Generous n;
  n.give();
  CHECK(n.at(1).credit() == 20);
  n.leaves(1, 10);
  CHECK(n.at(1).credit() == 0);
}
