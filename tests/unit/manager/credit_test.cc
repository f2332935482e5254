// SPDX-License-Identifier: Apache-2.0
//
// Memory that a program may take without a question.
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
  // The first program has 10, and 20 credit.
  void give() {
    CHECK(told(say(1, in::CudaMalloc{5, 10})) == Told{"1 Credit", "1 GoAhead 5"});
    take(0, 10);
    CHECK(told(say(1, in::MallocDone{5, 10})).empty());
  }
  u64 reserved() const { return policy.accounting().gpus[0].reserved; }
};

}  // namespace

TEST_CASE("where memory is plentiful, more is given than was asked for") {
  Generous n;
  n.give();
  // It stays promised, whatever is taken of it meanwhile.
  CHECK(n.reserved() == 20);
  n.take(0, 20);
  CHECK(n.reserved() == 20);
  CHECK(told(n.say(1, in::CudaMalloc{6, 10})) == Told{"1 GoAhead 6"});
}

TEST_CASE("where it is not, or somebody waits, nothing is given credit") {
  Generous n;
  CHECK(told(n.say(1, in::CudaMalloc{5, 50})) == Told{"1 GoAhead 5"});
  Generous m;
  m.join(2);
  m.say(2, in::Connect{85, false});
  CHECK(told(m.say(1, in::CudaMalloc{5, 10})) == Told{"1 GoAhead 5"});
}

TEST_CASE("it is wanted back before anybody leaves") {
  Generous n;
  n.start(2, 0, 10);
  n.give();
  // 70 are free, 20 of them promised.
  CHECK(told(n.say(2, in::CudaMalloc{6, 60})) == Told{"1 RevokeCredit"});
  n.take(0, 5);  // it has taken 5 of it
  CHECK(told(n.say(1, in::CreditReturned{15})) == Told{"2 GoAhead 6"});
  CHECK(n.at(1).used == 15);
  CHECK(n.reserved() == 60);
}

TEST_CASE("who does not give it back is not waited for") {
  Generous n;
  n.start(2, 0, 10);
  n.give();
  CHECK(told(n.say(2, in::CudaMalloc{6, 60})) == Told{"1 RevokeCredit"});
  CHECK(told(n.after(std::chrono::seconds(29))).empty());
  CHECK(told(n.after(std::chrono::seconds(31))) == Told{"2 Suspend"});
}

TEST_CASE("who waits for a GPU gets it, too") {
  Generous n;
  n.give();
  n.join(2);
  // 80 are free, 20 of them promised.
  CHECK(told(n.say(2, in::Connect{65, false})) == Told{"1 RevokeCredit"});
  CHECK(told(n.say(1, in::CreditReturned{10})) == Told{"2 Connect GPU0"});
}

TEST_CASE("with its device a program loses what was given credit") {
  Generous n;
  n.give();
  CHECK(n.at(1).credit == 20);
  n.leaves(1, 10);
  CHECK(n.at(1).credit == 0);
}
