// SPDX-License-Identifier: Apache-2.0
//
// The parts of the policy alone, on a state that is made by hand: no message was received.
#include <doctest/doctest.h>

#include "manager/policy/admission/admission.h"
#include "manager/policy/admission/denial.h"
#include "manager/policy/admission/starvation.h"
#include "manager/policy/eviction/rebalance.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;
namespace out = ckpt::managed::to_program;

namespace {

constexpr u64 kContextBytes = 10;

State two_gpus(Settings settings = {}) {
  settings.context_bytes = kContextBytes;
  return State(settings, {{.uuid = "GPU0", .total = 100, .free = 100},
                          {.uuid = "GPU1", .total = 200, .free = 200}});
}

template <class P>
Program &add(State &state, P phase, u64 used = 0) {
  state.programs.push_back(std::make_unique<Program>());
  Program &p = *state.programs.back();
  p.id = static_cast<ProgramId>(state.programs.size());
  p.used = used;
  p.variables_seen = true;
  p.state = std::move(phase);
  return p;
}

Assigned assigned(GpuIndex gpu) {
  Assigned a;
  a.gpu = gpu;
  a.context = true;
  return a;
}

// All parts that decide about memory.
struct Parts {
  explicit Parts(State &state)
      : interference(1s),
        credits(state),
        placement(state, interference),
        eviction(state, profiles, credits),
        work(state, profiles),
        cohort(state, placement, work),
        exchange(state, eviction, placement, work),
        exclusivity(state, eviction, placement),
        admission(state, placement, eviction, exclusivity, credits, cohort, exchange) {}
  WorkloadProfiles profiles;
  Interference interference;
  Credits credits;
  Placement placement;
  Eviction eviction;
  Work work;
  Cohort cohort;
  Exchange exchange;
  Exclusivity exclusivity;
  Admission admission;
};

}  // namespace

TEST_CASE("accounting counts what is promised and what will become free") {
  State state = two_gpus();
  Program &asking = add(state, assigned(0), 20);
  asking.requests = {{.ticket = 1, .bytes = 5, .granted = true}, {.ticket = 2, .bytes = 7}};
  Evicting leaving{assigned(0)};
  leaving.contents = {30, false};
  add(state, leaving, 30);
  add(state, Evicted{.contents = {40, true}});
  add(state, Pending{});
  Accounting a(state.gpus, state.programs, state.settings);
  CHECK(a.gpus[0].programs == 2);
  CHECK(a.gpus[0].reserved == 5);
  CHECK(a.gpus[0].leaving == 1);
  CHECK(a.gpus[0].freeing == 30 + kContextBytes);
  CHECK(a.gpus[0].available() == 95);
  CHECK(a.gpus[1].programs == 0);
  CHECK(a.assigned == 3);
  CHECK(a.host_kept == 30);
  CHECK(a.disk_kept == 40);
}

TEST_CASE("placement chooses the GPU with the fewest programs, then with the most free memory") {
  State state = two_gpus();
  Parts parts(state);
  Program &p = add(state, Pending{});
  state.count();
  CHECK(parts.placement.choose_gpu(p) == 1);
  add(state, assigned(1));
  state.count();
  CHECK(parts.placement.choose_gpu(p) == 0);
  p.unsuited[0] = "why";
  CHECK(parts.placement.choose_gpu(p) == 1);
  p.unsuited[1] = "why";
  CHECK(parts.placement.choose_gpu(p) == kNoGpu);
  CHECK_FALSE(parts.placement.suits_any(p));
}

TEST_CASE("eviction chooses the requester, or the cheapest program of its GPU") {
  Settings settings;
  settings.min_residency = Time{0};
  Victim wanted = Victim::Requester;
  SUBCASE("requester") {}
  SUBCASE("cheapest") { wanted = Victim::Cheapest; }
  settings.victim = wanted;
  State state = two_gpus(settings);
  Parts parts(state);
  Program &asking = add(state, assigned(0), 40), &other = add(state, assigned(0), 30);
  state.gpus[0].free = 10;
  state.count();
  parts.eviction.make_room(asking, 35);
  REQUIRE(state.orders.size() == 1);
  bool requester = wanted == Victim::Requester;
  CHECK(state.orders[0].to == (requester ? asking.id : other.id));
  CHECK(std::holds_alternative<out::Suspend>(state.orders[0].message) == requester);
  CHECK((requester ? asking : other).phase() == Phase::Evicting);
  CHECK(state.accounting.host_kept == (requester ? 40 : 30));
}

TEST_CASE("a program cannot leave when the host has no room for its contents") {
  Settings settings;
  settings.host_bytes = 20;
  State state = two_gpus(settings);
  Parts parts(state);
  Program &p = add(state, assigned(0), 21);
  CHECK_FALSE(parts.eviction.can_leave(p));
  p.used = 20;
  CHECK(parts.eviction.can_leave(p));
  p.exclusive = true;
  CHECK_FALSE(parts.eviction.can_leave(p));
}

TEST_CASE("admission assigns a pending program and resumes an evicted one") {
  State state = two_gpus();
  Parts parts(state);
  Program &pending = add(state, Pending{});
  Program &evicted = add(state, Evicted{.contents = {50, false}}, 50);
  state.count();
  parts.admission.serve_waiting({&pending, &evicted});
  REQUIRE(state.orders.size() == 2);
  CHECK(std::get<out::Connect>(state.orders[0].message).gpu == "GPU1");
  CHECK(std::get<out::Migrate>(state.orders[1].message).gpu == "GPU0");
  CHECK(pending.phase() == Phase::Assigned);
  CHECK(evicted.phase() == Phase::Resuming);
  CHECK(evicted.contents().bytes == 50);
  CHECK(state.account(0).reserved == 50 + kContextBytes);
}

TEST_CASE("starvation reserves a GPU for the program that has waited too long") {
  State state = two_gpus();
  Parts parts(state);
  Starvation starvation(state, parts.placement);
  Program &first = add(state, Evicted{}, 150), &second = add(state, Pending{});
  second.since = first.since + 1s;
  second.priority = 5;
  state.now = 20s;
  state.count();
  CHECK(starvation.waiting_in_order() == std::vector<Program *>{&second, &first});
  state.now = 30s;
  state.count();
  CHECK(starvation.waiting_in_order() == std::vector<Program *>{&first, &second});
  CHECK(first.reserved_gpu() == 1);
  CHECK(state.account(1).starving_need == 150 + kContextBytes);
  CHECK(state.account(1).available_to(second) == 40);
}

TEST_CASE("a program in a phase has only what belongs to the phase") {
  State state = two_gpus();
  Program &p = add(state, Pending{.wait = {.starving_since = 3s, .reserved_gpu = 1}});
  CHECK(p.waiting());
  CHECK(p.gpu() == kNoGpu);
  state.enter(p, assigned(1));
  CHECK_FALSE(p.waiting());
  CHECK_FALSE(p.starving_since());
  CHECK(p.gpu() == 1);
  CHECK(p.context());
  state.enter(p, Evicted{.by_tool = true});
  CHECK(p.gpu() == kNoGpu);
  CHECK_FALSE(p.context());
  CHECK_FALSE(p.waiting());
  CHECK(p.suspended_by_tool());
}
