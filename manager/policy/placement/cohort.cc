// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/placement/cohort.h"

#include <algorithm>
#include <tuple>

namespace ckpt::manager {

namespace {

constexpr size_t kMostMembers = 128;
// The next program starts so many times Settings::min_residency before the one whose place it
// takes has computed everything: its data is on the GPU by then.
constexpr int kHandoverFactor = 3;
// What a workload does is known when it has run for so many times Settings::progress_interval, and
// a program that has not computed for as long has stopped.
constexpr int kRecently = 10;
// With fewer waiting programs than this for each GPU, the end is near.
constexpr size_t kLastPerGpu = 6;

bool is_unknown(const Program &p) {
  return p.workload.demand.role() == Role::Unknown && !p.wants_alone();
}

bool computes(const Program &p) {
  return p.workload.demand.role() == Role::Computes && !p.wants_alone();
}

// The order in which roles are wanted there: Computes, Copies, Pauses. Smaller goes first.
constexpr int kWanted[][3] = {
    {2, 4, 3},  // nothing
    {4, 2, 3},  // computing
    {2, 4, 3},  // copying
    {2, 3, 4},  // pausing
    {2, 4, 2},  // both
    {2, 2, 2},  // nothing, and these are the last ones
};
constexpr int kExclusive = 0, kUnknown = 1, kKnownSoon = 5;

}  // namespace

// ---- what the choice depends on

// What runs on a GPU, as far as it matters for the next program.
enum class Cohort::There : u8 { Nothing, Computing, Copying, Pausing, Both, Last };

Cohort::There Cohort::there(const GpuAccount &account, size_t waiting, size_t gpus) {
  const Load &l = account.load;
  if (account.programs == 0) return waiting <= gpus + 1 ? There::Last : There::Nothing;
  bool copies = l.count(Role::Copies) > 0;
  if (l.computing() > 0) return copies ? There::Both : There::Computing;
  return copies ? There::Copying : There::Pausing;
}

// What is the same for all programs that could come to one GPU.
struct Cohort::Choice {
  const GpuAccount &account;
  There there;
  bool busy, last, exchange_due;

  bool has_copies() const { return account.load.count(Role::Copies) > 0; }
  // It would keep from the engine what this GPU lacks, or would only wait there. Only for a while:
  // is_busy(), exchange_is_due().
  bool is_useless(Role role) const {
    if (busy && role == Role::Computes) return true;
    if (role != Role::Copies || account.programs == 0) return false;
    return (busy && has_copies()) || exchange_due;
  }
};

Cohort::Round::Round(const State &state, const Members &all)
    : members(all), near_end(state.gpus.size() > 1 && all.size() <= state.gpus.size()) {
  for (const Program *p : all)
    if (computes(*p)) note_need(*p);
  for (const auto &p : state.programs)
    if (p->gpu() != kNoGpu && p->workload.profile != kNoProfile &&
        !state.has_run(*p, kRecently * state.settings.progress_interval))
      fresh.push_back(p->workload.profile);
}

void Cohort::Round::note_need(const Program &p) {
  u64 need = std::max(p.variables + p.used + p.requested(), p.workload.expected);
  if (least != nullptr && need >= least_need) {
    second_need = std::min(second_need, need);
    return;
  }
  second_need = least_need;
  least_need = need;
  least = &p;
}

// One of its workload has just started.
bool Cohort::Round::is_known_soon(const Program &p) const {
  return std::ranges::find(fresh, p.workload.profile) != fresh.end();
}

// ---- the members

bool Cohort::is_ready(const Program &p) const {
  bool deepens = p.stay() != nullptr && p.stay()->deepening;
  return p.waiting() && state_.now >= p.retry_at && p.previous_gpu() == kNoGpu && !deepens &&
         !p.is_guest() && placement_.suits_any(p);
}

Cohort::Members Cohort::members(std::span<Program *const> waiting) const {
  Members all;
  const Settings &s = state_.settings;
  if (s.placement != PlacementMode::Demand || s.links) return all;
  for (Program *p : waiting) {
    if (!is_ready(*p) || all.size() == kMostMembers) continue;
    bool together = all.empty() || (p->priority == all.front()->priority &&
                                    p->arrived <= all.front()->arrived + s.starvation_limit);
    if (together) all.push_back(p);
  }
  return all;
}

// ---- the choice

// What is kept for the starving program is kept for all members if it is one of them, and if it is
// known what it does.
std::optional<Cohort::Place> Cohort::next(const Members &members) {
  Members waiting;
  for (Program *p : members)
    if (p->waiting()) waiting.push_back(p);
  if (members.size() < 2 || waiting.empty()) return std::nullopt;
  const Program *starving = state_.accounting.starving;
  bool own = std::ranges::find(waiting, starving) != waiting.end() && !is_unknown(*starving);
  GpuIndex reserved = own ? starving->reserved_gpu() : kNoGpu;
  if (own) state_.accounting.starving = nullptr;
  if (reserved != kNoGpu) state_.account(reserved).starving = nullptr;
  std::optional<Place> place = choose({state_, waiting});
  if (own) state_.accounting.starving = starving;
  if (reserved != kNoGpu) state_.account(reserved).starving = starving;
  return place;
}

// One of which nothing is known goes where it would go alone.
std::optional<Cohort::Place> Cohort::choose(const Round &round) {
  std::vector<std::tuple<Time, u32, GpuIndex>> gpus;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    gpus.emplace_back(round.near_end ? left_on(g) : Time{0}, state_.account(g).programs, g);
  std::ranges::sort(gpus);
  for (auto [left, programs, g] : gpus)
    if (Program *p = best_on(g, round))
      return Place{p, is_unknown(*p) ? placement_.choose_gpu(*p) : g};
  return std::nullopt;
}

Program *Cohort::best_on(GpuIndex g, const Round &round) {
  const GpuAccount &account = state_.account(g);
  size_t gpus = state_.gpus.size(), waiting = round.members.size();
  Choice here{account, there(account, waiting, gpus), !round.near_end && is_busy(g),
              gpus > 1 && waiting < kLastPerGpu * gpus, exchange_is_due(g, round.members)};
  Program *best = nullptr;
  std::optional<Rank> least;
  for (Program *p : round.members) {
    bool waits = !p->wants_alone() && work_.is_sampled(*p);
    if (waits && here.is_useless(p->workload.demand.role())) continue;
    Rank rank = rank_of(*p, here, round);
    if (least && rank >= *least) continue;
    if (!placement_.may_enter(*p, g) || fits_better_elsewhere(*p, g)) continue;
    best = p;
    least = rank;
  }
  return best;
}

// Smaller goes first; among equals, the first in order.
Cohort::Rank Cohort::rank_of(const Program &p, const Choice &here, const Round &round) const {
  if (is_unknown(p))
    return {round.is_known_soon(p) ? kKnownSoon : kUnknown, Time{0}, false, 0, Time{0}};
  Role role = p.workload.demand.role();
  Time left = work_.left(p).value_or(Time{0});
  u64 size = ~p.workload.expected;
  bool crowds = false;
  if (p.wants_alone()) return {kExclusive, here.last ? -left : Time{0}, crowds, size, -left};
  if (here.has_copies() || role == Role::Copies) crowds = !leaves_room(p, here.account, round);
  if (here.has_copies() && role == Role::Computes) size = ~static_cast<u64>(left.count());
  int wanted = kWanted[static_cast<size_t>(here.there)][static_cast<size_t>(role)];
  return {wanted, here.last ? -left : Time{0}, crowds, size, -left};
}

// One that computes can be handed over to the next one beside it.
bool Cohort::leaves_room(const Program &p, const GpuAccount &account, const Round &round) const {
  u64 next = &p == round.least ? round.second_need : round.least_need;
  const Gpu &gpu = state_.gpu(account.index);
  if (next == Round::kNone) return false;
  u64 need = room_of(p, gpu, state_.settings) + account.expected + next +
             context_cost(gpu, state_.settings);
  return need <= account.available();
}

// What its programs have left, as far as that is known.
Time Cohort::left_on(GpuIndex g) const {
  Time sum{0};
  for (const auto &p : state_.programs)
    if (p->gpu() == g) sum += work_.left(*p).value_or(Time{0});
  return sum;
}

// On another GPU that it may enter it has not failed, or is expected to have enough memory, or what
// it has left behind saves it the way.
bool Cohort::fits_better_elsewhere(const Program &p, GpuIndex g) {
  auto cost = [&](GpuIndex at) { return std::tuple(p.failures(at), placement_.too_small(p, at)); };
  auto returns = [&](GpuIndex at) {
    return p.stays_on(at) && state_.account(at).programs <= state_.account(g).programs;
  };
  if (cost(g) == std::tuple(0u, false) && (p.stay() == nullptr || p.stays_on(g))) return false;
  for (GpuIndex other = 0; other < state_.gpu_count(); other++) {
    bool better = cost(other) < cost(g) || (cost(other) == cost(g) && returns(other));
    if (other != g && better && placement_.may_enter(p, other)) return true;
  }
  return false;
}

// ---- why a program waits although it would fit

// One of its programs keeps the engine busy for a while.
bool Cohort::is_busy(GpuIndex g) const {
  return std::ranges::any_of(state_.programs, [&](const auto &p) {
    return p->gpu() == g && !p->is(Phase::Evicting) && keeps_busy(*p);
  });
}

// One that computes for very long does not keep others waiting, nor does one that has stopped.
bool Cohort::keeps_busy(const Program &p) const {
  const Settings &s = state_.settings;
  if (!computes(p) || state_.has_run(p, s.pairing_limit)) return false;
  Time since = std::max(p.since, p.workload.computed_at);
  if (state_.now - since > kRecently * s.progress_interval) return false;
  if (work_.overdue(p)) return true;
  std::optional<Time> left = work_.left(p);
  return left && *left > kHandoverFactor * s.min_residency && *left < s.pairing_limit;
}

// Programs that copy have the GPU for themselves, and one of them will be exchanged for one that
// computes (eviction/exchange.h). Not for longer than that takes, and not if one has refused.
bool Cohort::exchange_is_due(GpuIndex g, const Members &members) const {
  const GpuAccount &account = state_.account(g);
  if (account.programs == 0 || account.load.computing() > 0) return false;
  if (std::ranges::any_of(members, [](const Program *p) { return is_unknown(*p); })) return false;
  bool stays = std::ranges::any_of(state_.programs, [&](const auto &p) {
    return p->gpu() == g &&
           (p->refusals > 0 || state_.has_run(*p, state_.settings.starvation_limit));
  });
  return !stays && std::ranges::any_of(members, [&](const Program *p) {
    return computes(*p) && placement_.suits(*p, g) && !placement_.too_small(*p, g);
  });
}

}  // namespace ckpt::manager
