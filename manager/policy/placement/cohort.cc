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
// With fewer waiting programs than this for each GPU, the end is near.
constexpr size_t kLastPerGpu = 3;

// What runs on a GPU, as far as it matters for the next program.
enum class There : u8 { Nothing, Computing, Copying, Pausing, Both, Last };

There on(const GpuAccount &account, size_t waiting, size_t gpus) {
  const Load &l = account.load;
  if (account.programs == 0) return waiting <= gpus + 1 ? There::Last : There::Nothing;
  bool copies = l.count(Role::Copies) > 0;
  if (l.computing() > 0) return copies ? There::Both : There::Computing;
  return copies ? There::Copying : There::Pausing;
}

// The order in which roles are wanted there: Computes, Copies, Pauses, Unknown. Smaller goes first.
constexpr int kWanted[][4] = {
    {1, 4, 3, 2},  // nothing
    {4, 2, 3, 1},  // computing
    {1, 4, 3, 2},  // copying
    {1, 3, 4, 2},  // pausing
    {1, 4, 1, 3},  // both
    {1, 1, 1, 1},  // nothing, and these are the last ones
};
constexpr int kExclusive = 0, kKnownSoon = 5;

// A GPU and those that could come: what their ranks depend on.
struct Choice {
  const GpuAccount &account;
  There there;
  bool busy, last, computers_wait;

  // It would keep from the engine what this GPU lacks, or would only wait there.
  bool is_useless(const Program &p) const {
    const Load &l = account.load;
    Role role = p.workload.demand.role();
    if (p.wants_alone()) return false;
    if (role == Role::Unknown) return l.count(Role::Unknown) > 0;
    if (busy && role == Role::Computes) return true;
    if (role != Role::Copies || account.programs == 0) return false;
    return (busy && l.count(Role::Copies) > 0) || (l.computing() == 0 && computers_wait);
  }
};

}  // namespace

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

// What is kept for the starving program is kept for all members if it is one of them.
std::optional<Cohort::Place> Cohort::next(const Members &members) {
  Members waiting;
  for (Program *p : members)
    if (p->waiting()) waiting.push_back(p);
  if (waiting.size() < 2) return std::nullopt;
  const Program *starving = state_.accounting.starving;
  bool own = std::ranges::find(waiting, starving) != waiting.end();
  GpuIndex reserved = own ? starving->reserved_gpu() : kNoGpu;
  if (own) state_.accounting.starving = nullptr;
  if (reserved != kNoGpu) state_.account(reserved).starving = nullptr;
  std::optional<Place> place = choose(waiting);
  if (own) state_.accounting.starving = starving;
  if (reserved != kNoGpu) state_.account(reserved).starving = starving;
  return place;
}

std::optional<Cohort::Place> Cohort::choose(const Members &members) {
  std::vector<GpuIndex> gpus;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) gpus.push_back(g);
  std::ranges::stable_sort(gpus, {}, [&](GpuIndex g) { return state_.account(g).programs; });
  for (GpuIndex g : gpus)
    if (Program *p = best_on(g, members)) return Place{p, g};
  return std::nullopt;
}

Program *Cohort::best_on(GpuIndex g, const Members &members) {
  auto computes = [](const Program *p) {
    Role role = p->workload.demand.role();
    return !p->wants_alone() && (role == Role::Computes || role == Role::Unknown);
  };
  const GpuAccount &account = state_.account(g);
  size_t gpus = state_.gpus.size();
  Choice here{account, on(account, members.size(), gpus), is_busy(g),
              members.size() < kLastPerGpu * gpus, std::ranges::any_of(members, computes)};
  auto rank = [&](const Program &p) {
    Role role = p.workload.demand.role();
    bool soon = role == Role::Unknown && !is_new(p) && here.there != There::Last;
    int wanted = p.wants_alone() ? kExclusive
                 : soon          ? kKnownSoon
                                 : kWanted[static_cast<int>(here.there)][static_cast<int>(role)];
    Time left = work_.left(p).value_or(Time{0});
    return std::tuple(p.failures(g), wanted, here.last ? -left : Time{0}, ~p.workload.expected,
                      -left);
  };
  Program *best = nullptr;
  for (Program *p : members) {
    if (here.is_useless(*p) || (best != nullptr && rank(*p) >= rank(*best))) continue;
    if (placement_.may_enter(*p, g)) best = p;
  }
  return best;
}

// No program of its workload runs, so that the next one makes it known.
bool Cohort::is_new(const Program &p) const {
  return std::ranges::none_of(state_.accounting.gpus, [&](const GpuAccount &g) {
    return std::ranges::find(g.profiles, p.workload.profile) != g.profiles.end();
  });
}

// One of its programs keeps the engine busy for a while. One that computes for very long does not
// keep others waiting.
bool Cohort::is_busy(GpuIndex g) const {
  return std::ranges::any_of(state_.programs, [&](const auto &p) {
    return p->gpu() == g && !p->is(Phase::Evicting) && keeps_busy(*p);
  });
}

bool Cohort::keeps_busy(const Program &p) const {
  const Settings &s = state_.settings;
  if (p.workload.demand.role() != Role::Computes) return false;
  if (work_.overdue(p)) return !state_.has_run(p, s.pairing_limit);
  std::optional<Time> left = work_.left(p);
  return left && *left > kHandoverFactor * s.min_residency && *left < s.pairing_limit;
}

}  // namespace ckpt::manager
