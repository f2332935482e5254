// SPDX-License-Identifier: Apache-2.0
//
// Programs that have arrived together: which one goes next, and which one gives way.
#include "manager/policy/placement/cohort.h"

#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

constexpr u64 kContext = 10, kGB = 1'000'000'000;

// A workload: for which part of its time its kernels run, what it copies, and how long it takes.
struct Kind {
  u64 profile;
  double kernels;
  u64 copied;
  int seconds;
};
constexpr Kind kComputes{11, 1, 1, 40}, kCopies{12, 0.3, 2 * kGB, 40}, kPauses{13, 0.8, 1, 40},
    kShort{14, 1, 1, 20};

Settings together() {
  Settings s;
  s.context_bytes = kContext;
  s.min_residency = 1s;
  s.placement = PlacementMode::Demand;
  return s;
}

void computes(Node &n, ProgramId p, Time kernels) {
  KernelTime told[] = {{p, kernels}};
  n.policy.computed(n.now, told);
}

void has_come(Node &n, ProgramId p, GpuIndex gpu, u64 bytes) {
  n.take(gpu, kContext);
  n.policy.footprint(p, n.at(p).used + kContext);
  n.say(p, in::ContextCheck{});
  n.has(p, bytes);
}

Told arrives(Node &n, ProgramId p, const Kind &kind) {
  n.join(p);
  n.say(p, in::Workload{kind.profile});
  return told(n.say(p, in::Connect{}));
}

void starts(Node &n, ProgramId p, const Kind &kind, u64 bytes, GpuIndex gpu = 0) {
  REQUIRE(arrives(n, p, kind) == Told{fmt::format("{} Connect GPU{}", p, gpu)});
  has_come(n, p, gpu, bytes);
}

Told ends(Node &n, ProgramId p) {
  n.give(n.at(p).gpu(), kContext + n.at(p).used);
  return told(n.say(p, in::Fin{}));
}

// A whole run on an empty node, after which the Manager knows the workload; `sampled`: by the
// driver.
void teach(Node &n, const Kind &kind, u64 bytes, bool sampled = true) {
  ProgramId p = 900 + static_cast<ProgramId>(kind.profile);
  starts(n, p, kind, bytes);
  for (int i = 1; i <= kind.seconds; i++) {
    n.now += 1s;
    n.say(p, in::Progress{static_cast<u32>(i * 100), 0, static_cast<u64>(i) * kind.copied});
    if (sampled) computes(n, p, Time(static_cast<i64>(kind.kernels * 1e6)));
  }
  CHECK(ends(n, p) == Told{});
}

struct Taught : Node {
  Taught(const std::vector<u64> &gpus, u64 bytes_of_computing, u64 bytes_of_copying)
      : Node(together(), gpus) {
    teach(*this, kComputes, bytes_of_computing);
    teach(*this, kCopies, bytes_of_copying);
    teach(*this, kPauses, bytes_of_computing);
    teach(*this, kShort, bytes_of_computing);
  }
};

// One that computes and one that copies fill the GPU. Program 2, which computes, waits, and behind
// it six that copy.
struct Queue : Taught {
  explicit Queue(Time later) : Taught({200}, 80, 80) {
    starts(*this, 1, kComputes, 80);
    starts(*this, 9, kCopies, 80);
    CHECK(arrives(*this, 2, kComputes) == Told{});
    now += later;
    for (ProgramId p = 3; p <= 8; p++) CHECK(arrives(*this, p, kCopies) == Told{});
  }
  // The program that joins when `p` ends.
  ProgramId after_end_of(ProgramId p) {
    Told orders = ends(*this, p);
    REQUIRE(orders.size() == 1);
    ProgramId next = static_cast<ProgramId>(std::stoul(orders[0]));
    REQUIRE(orders[0] == fmt::format("{} Connect GPU0", next));
    has_come(*this, next, 0, 80);
    return next;
  }
};

// Program 1 computes alone, and 2 and 3, which compute too, wait for it.
void computes_while_two_wait(Taught &n) {
  starts(n, 1, kComputes, 80);
  starts(n, 9, kCopies, 80);
  for (ProgramId p : {2, 3}) CHECK(arrives(n, p, kComputes) == Told{});
  CHECK(ends(n, 9) == Told{});
}

}  // namespace

TEST_CASE("of programs that arrived together, all that copy join one that computes") {
  Queue n(0s);
  ProgramId last = 9;
  for (ProgramId p = 3; p <= 8; p++) {
    CHECK(n.after_end_of(last) == p);
    last = p;
  }
}

TEST_CASE("programs that arrive later pass over an earlier one four times at most") {
  Queue n(31s);
  ProgramId last = 9;
  for (ProgramId p = 3; p <= 6; p++) {
    CHECK(n.after_end_of(last) == p);
    last = p;
  }
  CHECK(n.after_end_of(last) == 2);
}

TEST_CASE(
    "a GPU that one program keeps busy takes another that computes when that is about to end") {
  Taught n({200}, 80, 80);
  computes_while_two_wait(n);
  n.now += 36s;
  computes(n, 1, 36s);
  CHECK(told(n.after(1s)) == Told{});  // four seconds are left
  computes(n, 1, 1s);
  CHECK(told(n.after(1s)) == Told{"2 Connect GPU0"});
}

TEST_CASE("a program that computes for longer than it should does not keep others away for ever") {
  Taught n({200}, 80, 80);
  computes_while_two_wait(n);
  n.now += 60s;
  computes(n, 1, 60s);
  CHECK(told(n.after(1s)) == Told{});
  CHECK(told(n.after(300s)).size() == 1);
}

TEST_CASE("one that copies leaves its GPU to one that computes, and none joins it before") {
  Taught n({200}, 140, 60);
  starts(n, 1, kCopies, 60);
  CHECK(arrives(n, 2, kComputes) == Told{});  // it does not fit beside it
  CHECK(arrives(n, 3, kCopies) == Told{});    // this one would
  CHECK(told(n.after(9s)) == Told{});
  CHECK(told(n.after(2s)) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, kContext)) == Told{"2 Connect GPU0"});
}

TEST_CASE("a workload that leaves the engine idle while its host works is known to pause") {
  Taught n({400}, 80, 80);
  for (auto [p, kind, role] :
       {std::tuple(1, kComputes, Role::Computes), std::tuple(2, kCopies, Role::Copies),
        std::tuple(3, kPauses, Role::Pauses)}) {
    starts(n, static_cast<ProgramId>(p), kind, 80);
    CHECK(n.at(static_cast<ProgramId>(p)).workload.demand.role() == role);
  }
}

TEST_CASE("without kernel times of the driver, no program is known to pause or to end") {
  Node n(together(), {200});
  starts(n, 1, kPauses, 80);
  for (u32 i = 1; i <= 40; i++) {
    n.now += 1s;
    n.say(1, in::Progress{i * 100, 0, i});
  }
  CHECK(ends(n, 1) == Told{});
  starts(n, 2, kPauses, 80);
  CHECK(n.at(2).workload.demand.role() == Role::Computes);
  CHECK(arrives(n, 3, kPauses) == Told{"3 Connect GPU0"});
}

TEST_CASE("in the end a program leaves its GPU to one that has longer to compute") {
  Taught n({100, 100}, 80, 80);
  starts(n, 1, kShort, 80);
  starts(n, 5, kComputes, 80, 1);
  CHECK(arrives(n, 2, kComputes) == Told{});
  CHECK(told(n.after(4s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, kContext)) == Told{"2 Connect GPU0"});
  has_come(n, 2, 0, 80);
  CHECK(told(n.after(20s)) == Told{});  // they do not take turns
}

TEST_CASE("in the end no program leaves its GPU whose move takes longer than it gains") {
  Taught n({60 * kGB, 60 * kGB}, 50 * kGB, 50 * kGB);
  starts(n, 1, kShort, 50 * kGB);
  starts(n, 5, kComputes, 50 * kGB, 1);
  CHECK(arrives(n, 2, kComputes) == Told{});
  for (int second = 0; second < 30; second++) CHECK(told(n.after(1s)) == Told{});
}

TEST_CASE("with one GPU, none leaves for one that has longer to compute") {
  Taught n({100}, 80, 80);
  starts(n, 1, kShort, 80);
  CHECK(arrives(n, 2, kComputes) == Told{});
  CHECK(told(n.after(10s)) == Told{});
}

TEST_CASE("the program moves to an idle GPU whose move makes the two end together") {
  Taught n({300, 300}, 80, 80);
  starts(n, 1, kShort, 10);
  starts(n, 4, kShort, 10, 1);
  starts(n, 2, kShort, 40);
  starts(n, 5, kShort, 60, 1);
  starts(n, 3, kComputes, 80);
  CHECK(ends(n, 4) == Told{});
  CHECK(ends(n, 5) == Told{});
  CHECK(told(n.after(2s)) == Told{"3 Signal"});
}

// ---- programs of which nothing is known

namespace {

constexpr Kind kNew{21, 1, 1, 40}, kOther{22, 1, 1, 40};

// Program 1 needs 100 more than there is, has left, and waits first. Program 2 has 80.
Node one_evicted() {
  Node n(together(), {256});
  starts(n, 1, kNew, 100);
  starts(n, 2, kOther, 80);
  n.now += 5s;
  CHECK(told(n.say(1, in::CudaMalloc{7, 100})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, kContext)) == Told{});
  return n;
}

}  // namespace

TEST_CASE("a program of which nothing is known goes where it fits at once, also beside its like") {
  Node n = one_evicted();
  CHECK(arrives(n, 3, Kind{23}) == Told{"3 Connect GPU0"});
  CHECK(arrives(n, 4, kOther) == Told{"4 Connect GPU0"});
}

TEST_CASE("a program without a workload goes where it fits at once") {
  Node n = one_evicted();
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{"3 Connect GPU0"});
}

TEST_CASE("programs of which nothing is known keep their order of arrival") {
  Settings s = together();
  s.startup_delay = 1s;
  Node n(s, {1000, 1000});
  for (ProgramId p = 1; p <= 5; p++) CHECK(arrives(n, p, Kind{p % 2 + 21}) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Connect GPU0", "2 Connect GPU1", "3 Connect GPU0",
                                  "4 Connect GPU1", "5 Connect GPU0"});
}

TEST_CASE("known programs do not overtake one before them of which nothing is known") {
  Taught n({95}, 80, 80);
  starts(n, 1, kComputes, 80);
  CHECK(arrives(n, 2, kNew) == Told{});
  for (ProgramId p : {3, 4}) CHECK(arrives(n, p, kComputes) == Told{});
  CHECK(ends(n, 1) == Told{"2 Connect GPU0"});
}

TEST_CASE("OpenCL programs go where they fit at once, beside any") {
  std::vector<Gpu> gpus = Node::gpus({250});
  gpus[0].apis = managed::kAllApis;
  Node n(together(), gpus);
  teach(n, kComputes, 80);
  for (ProgramId p : {1, 2}) starts(n, p, kComputes, 80);
  for (ProgramId p : {3, 4}) CHECK(arrives(n, p, kComputes) == Told{});
  for (ProgramId p : {5, 6}) {
    n.say(p, in::Uses{managed::kOpenCl});
    CHECK(arrives(n, p, kNew) == Told{fmt::format("{} Connect GPU0", p)});
  }
}

// ---- known reasons to wait, and their bounds

TEST_CASE("without kernel times of the driver, no program waits where it fits") {
  Node n(together(), {200});
  teach(n, kComputes, 140, false);
  teach(n, kCopies, 60, false);
  starts(n, 1, kCopies, 60);
  CHECK(arrives(n, 2, kComputes) == Told{});  // it does not fit
  CHECK(arrives(n, 3, kCopies) == Told{"3 Connect GPU0"});
}

TEST_CASE("a program that has stopped computing does not keep others away") {
  Taught n({200}, 80, 80);
  computes_while_two_wait(n);
  n.now += 10s;
  computes(n, 1, 10s);
  CHECK(told(n.after(10s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"2 Connect GPU0"});
}

TEST_CASE("programs that copy do not wait for an exchange that was refused") {
  Taught n({200}, 140, 60);
  starts(n, 1, kCopies, 60);
  CHECK(arrives(n, 2, kComputes) == Told{});
  CHECK(arrives(n, 3, kCopies) == Told{});
  CHECK(told(n.after(11s)) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.say(1, in::Failed{"managed memory"})) == Told{"3 Connect GPU0"});
}

TEST_CASE("no program leaves for one that would not fit in its place, or is waited for long") {
  Taught n({200}, 140, 45);
  starts(n, 1, kCopies, 45);
  starts(n, 4, kCopies, 45);
  CHECK(arrives(n, 2, kComputes) == Told{});
  CHECK(arrives(n, 3, kCopies) == Told{});
  CHECK(told(n.after(29s)) == Told{});  // 145 of the 150 that it takes
  CHECK(told(n.after(2s)) == Told{"3 Connect GPU0"});
}

TEST_CASE("where one copies, one goes next that leaves room for the next one") {
  Node n(together(), {200});
  teach(n, kCopies, 60);
  teach(n, kComputes, 100);
  teach(n, kShort, 50);
  starts(n, 1, kCopies, 60);
  starts(n, 2, kComputes, 100);
  for (ProgramId p : {3, 4, 5}) CHECK(arrives(n, p, p == 3 ? kComputes : kShort) == Told{});
  CHECK(ends(n, 2) == Told{"4 Connect GPU0"});
}

TEST_CASE("programs of a cohort start where the memory suffices that their workload has used") {
  Settings s = together();
  s.startup_delay = 1s;
  Node n(s, {60, 200});
  n.policy.learn(n.now, {{kComputes.profile, "p", 100, 80, 100, 100}});
  for (ProgramId p : {1, 2}) CHECK(arrives(n, p, kComputes) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Connect GPU1", "2 Connect GPU1"});
}
