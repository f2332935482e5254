// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/placement/placement.h"

#include <algorithm>
#include <tuple>

#include "manager/policy/placement/links.h"

namespace ckpt::manager {

namespace {

constexpr u32 kMaxSkips = 4;
constexpr size_t kCandidates = 16;
// A smaller gain is noise: what is known of the two does not tell them apart.
constexpr double kWorthwhile = 0.95;

// What OpenCL programs copy is not reported.
bool shows_demand(const Program &p) {
  return p.workload.profile != kNoProfile && (p.apis & managed::kCuda) != 0;
}

}  // namespace

Placement::Placement(State &state, Interference &interference)
    : state_(state), interference_(interference) {
  for (u32 apis = 0; apis < servers_.size(); apis++) servers_[apis] = servers_of(apis);
}

Placement::Servers Placement::servers_of(u32 apis) const {
  Servers all;
  all.gpus = static_cast<size_t>(
      std::ranges::count_if(state_.gpus, [&](const Gpu &g) { return serves(g, apis); }));
  for (u32 other = 0; other < all.within.size(); other++)
    all.within[other] = std::ranges::all_of(
        state_.gpus, [&](const Gpu &g) { return !serves(g, other) || serves(g, apis); });
  return all;
}

// ---- where a program could ever run

bool Placement::suits(const Program &p, GpuIndex g) const {
  return serves(state_.gpu(g), p.apis) && !p.unsuited.contains(g);
}

bool Placement::suits_any(const Program &p) const {
  if (p.unsuited.empty()) return servers_[p.apis].gpus > 0;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    if (suits(p, g)) return true;
  return false;
}

bool Placement::never_fits(const Program &p) const {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const Gpu &gpu = state_.gpu(g);
    if (suits(p, g) && least_need_of(p, gpu) <= gpu.total) return false;
  }
  return true;
}

bool Placement::too_small(const Program &p, GpuIndex g) const {
  const Gpu &gpu = state_.gpu(g);
  return need_of(p, gpu, state_.settings) > gpu.total;
}

// ---- where it may run now

// Two limits: for the node, and for the GPUs that `p` can use. The second counts the programs that
// can use no other GPUs. By the first alone, programs that wait for GPUs of one API would keep
// others from the GPUs of another API.
bool Placement::none_assignable(const Program &p, bool one_is_kept) const {
  if (p.wants_alone()) return false;
  const Accounting &a = state_.accounting;
  size_t most = state_.settings.programs_per_gpu, kept = one_is_kept ? 1 : 0;
  if (a.assigned + kept >= most * state_.gpus.size()) return true;
  const Servers &servers = servers_[p.apis];
  size_t there = one_is_kept && servers.within[a.starving->apis] ? 1 : 0;
  for (size_t apis = 0; apis < servers.within.size(); apis++)
    if (servers.within[apis]) there += a.assigned_by[apis];
  return there >= most * servers.gpus;
}

bool Placement::keeps_place(const Program &p, GpuIndex g) {
  auto *pending = std::get_if<Pending>(&p.state);
  bool there = pending != nullptr && g != kNoGpu && g == pending->previous_gpu;
  return there && p.variables + p.used + p.requested() <= pending->expected;
}

// An assignment is kept for the starving program if it could use `g`.
bool Placement::keeps_assignment(const Program &p, GpuIndex g) const {
  const Program *starving = state_.accounting.starving;
  if (starving == nullptr || starving == &p) return false;
  if (!starving->is(Phase::Pending) || starving->wants_alone() || keeps_place(p, g)) return false;
  const Gpu &gpu = state_.gpu(g);
  return suits(*starving, g) && least_need_of(*starving, gpu) <= gpu.total;
}

bool Placement::may_enter(const Program &p, GpuIndex g) {
  bool empty = state_.account(g).stayers_beside(p) == 0;
  return (empty || !p.wants_alone()) && admits(p, g) && has_room(p, g) && !kept_apart(p, g);
}

bool Placement::admits(const Program &p, GpuIndex g) const {
  const GpuAccount &account = state_.account(g);
  if (!suits(p, g) || account.taken(p) || is_for_others(p, g)) return false;
  // What the kernels of an exclusive program will allocate is unknown, so nothing of an earlier
  // program may be in its way.
  if (p.wants_alone() && (account.programs > 0 || state_.gpu(g).dying)) return false;
  u32 kept = account.kept_from(p) ? 1 : 0;
  if (account.programs + kept >= state_.settings.programs_per_gpu) return false;
  bool too_many = account.contextless >= state_.settings.contextless_per_gpu;
  return !p.is(Phase::Pending) || (!none_assignable(p, keeps_assignment(p, g)) && !too_many);
}

// A guest takes no memory for which a program that is not a guest waits.
bool Placement::is_for_others(const Program &p, GpuIndex g) const {
  return p.is_guest() && std::ranges::any_of(state_.programs, [&](const auto &q) {
           bool waits = q->blocked() ? q->gpu() == g : q->waiting() && suits(*q, g);
           return waits && !q->is_guest();
         });
}

// There is no better place to wait for than an empty GPU, whatever the workload has used before.
bool Placement::has_room(const Program &p, GpuIndex g) const {
  const GpuAccount &account = state_.account(g);
  const Gpu &gpu = state_.gpu(g);
  bool alone = account.programs == 0;
  bool empty = alone && account.stayers_beside(p) == 0 && !gpu.foreign && !gpu.dying;
  u64 need = empty   ? least_room_of(p, gpu)
             : alone ? asked_room_of(p, gpu, state_.settings)
                     : room_of(p, gpu, state_.settings);
  u64 room = keeps_place(p, g) ? account.available() : account.available_to(p);
  return need + account.expected <= room;
}

// Of two workloads that lose together, the second waits, as it would with one program per GPU. The
// wait is bounded: the starving program is admitted after the pairing limit, and until then no
// program is admitted that would keep it out.
bool Placement::kept_apart(const Program &p, GpuIndex g) {
  ProfileIndex own = p.workload.profile;
  if (state_.settings.placement != PlacementMode::Interference || own == kNoProfile) return false;
  std::optional<Time> starving = p.starving_since();
  if (starving && state_.now - *starving >= state_.settings.pairing_limit) return false;
  const GpuAccount &account = state_.account(g);
  auto lose = [&](ProfileIndex other) { return interference_.kept_apart(state_.now, own, other); };
  if (std::ranges::any_of(account.profiles, lose)) return true;
  if (account.kept_from(p) && lose(account.starving->workload.profile)) return true;
  return account.programs == 1 && account.profiles.size() == 1 &&
         interference_.needs_rate_alone(state_.now, account.profiles[0], own);
}

// ---- the choice

double Placement::stretch_with(const Program &p, GpuIndex g) const {
  Load load = state_.account(g).load;
  load.add(p.workload.demand);
  if (!state_.settings.links) return load.stretch();
  std::vector<double> elsewhere;
  for (GpuIndex other = 0; other < state_.gpu_count(); other++)
    if (other != g)
      elsewhere.insert(elsewhere.end(), state_.account(other).load.buses.begin(),
                       state_.account(other).load.buses.end());
  return std::max(load.kernels, slowdown_by_links(load.buses, elsewhere, *state_.settings.links));
}

GpuIndex Placement::choose_gpu(const Program &p) {
  GpuIndex best = kNoGpu, previous = p.previous_gpu();
  auto cost = [&](GpuIndex g) {
    const GpuAccount &account = state_.account(g);
    return std::tuple(p.failures(g), too_small(p, g), account.programs, !p.stays_on(g),
                      stretch_with(p, g), ~account.available());
  };
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    if (!may_enter(p, g)) continue;
    if (g == previous) return g;
    if (best == kNoGpu || cost(g) < cost(best)) best = g;
  }
  return best;
}

// A program that is placed instead of the starving program may have what is kept for it.
Program *Placement::choose_instead(std::span<Program *const> behind, const Program &next,
                                   GpuIndex g) {
  GpuAccount &account = state_.account(g);
  bool chooses = state_.settings.placement == PlacementMode::Demand && account.programs > 0 &&
                 next.workload.demand.known;
  if (!chooses || next.previous_gpu() != kNoGpu || next.wants_alone()) return nullptr;
  if (next.workload.times_skipped >= kMaxSkips) return nullptr;
  const Program *starving_there = account.starving, *starving = state_.accounting.starving;
  if (starving_there == &next) account.starving = nullptr;
  if (starving == &next) state_.accounting.starving = nullptr;
  Program *best = best_behind(behind, next, g);
  account.starving = starving_there;
  state_.accounting.starving = starving;
  return best;
}

Program *Placement::best_behind(std::span<Program *const> behind, const Program &next, GpuIndex g) {
  Program *best = nullptr;
  double least = stretch_with(next, g) * kWorthwhile;
  for (Program *q : behind.first(std::min(behind.size(), kCandidates))) {
    bool may = q->waiting() && shows_demand(*q) && !q->wants_alone() && state_.now >= q->retry_at &&
               q->priority >= next.priority;
    bool failed = q->failures(g) > next.failures(g);
    if (!may || failed || stretch_with(*q, g) >= least || !may_enter(*q, g)) continue;
    best = q;
    least = stretch_with(*q, g);
  }
  return best;
}

}  // namespace ckpt::manager
