// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/admission/starvation.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ckpt::manager {

std::vector<Program *> Starvation::waiting_in_order() {
  std::vector<Program *> waiting;
  for (const auto &p : state_.programs)
    if (p->waiting()) waiting.push_back(p.get());
  Program *starving = choose(waiting);
  sort(waiting, starving);
  for (Program *p : waiting)
    if (p != starving) p->wait()->reserved_gpu = kNoGpu;
  if (starving != nullptr) reserve(*starving);
  return waiting;
}

// With ranks that are computed once: half of a decision would be spent here otherwise.
void Starvation::sort(std::vector<Program *> &waiting, const Program *starving) {
  using Rank = std::tuple<bool, bool, i64>;
  std::vector<std::pair<Rank, Program *>> ranked;
  ranked.reserve(waiting.size());
  for (Program *p : waiting) {
    bool keeps = Placement::keeps_place(*p, p->previous_gpu());
    ranked.push_back({{!keeps, p != starving, -i64{p->priority}}, p});
  }
  auto rank = [](const auto &r) -> const Rank & { return r.first; };
  if (std::ranges::is_sorted(ranked, {}, rank)) return;
  std::ranges::stable_sort(ranked, {}, rank);
  std::ranges::transform(ranked, waiting.begin(), [](const auto &r) { return r.second; });
}

// The program that starves already remains the one. Otherwise a program that came early and is
// evicted now and then would always be.
Program *Starvation::choose(const std::vector<Program *> &waiting) const {
  const Settings &s = state_.settings;
  Time limit =
      s.time_slice > Time{0} ? std::min(s.time_slice, s.starvation_limit) : s.starvation_limit;
  Program *starving = nullptr;
  Time earliest{0};
  bool only_guests = std::ranges::all_of(state_.programs, [](auto &p) { return p->is_guest(); });
  for (Program *p : waiting) {
    if (p->is_guest() && !only_guests) continue;
    bool limited = p->is(Phase::Pending) && placement_.none_assignable(*p);
    if (!state_.has_run(*p, limit) || limited) continue;
    Time since = p->starving_since().value_or(Time::max());
    if (starving != nullptr && since >= earliest) continue;
    starving = p;
    earliest = since;
  }
  return starving;
}

// The GPU remains the same while the program waits. Otherwise the program would always wait for the
// memory that another program has just taken.
void Starvation::reserve(Program &starving) {
  Wait &wait = *starving.wait();
  if (!wait.starving_since) wait.starving_since = state_.now;
  state_.accounting.starving = &starving;
  GpuIndex g = wait.reserved_gpu;
  if (g == kNoGpu || state_.account(g).taken(starving) || !placement_.suits(starving, g))
    wait.reserved_gpu = best_gpu(starving);
  if (wait.reserved_gpu == kNoGpu) return;
  GpuAccount &account = state_.account(wait.reserved_gpu);
  const Gpu &gpu = state_.gpu(wait.reserved_gpu);
  account.starving = &starving;
  account.starving_need = starving.wants_alone()
                              ? gpu.total
                              : std::min(gpu.total, room_of(starving, gpu, state_.settings));
}

GpuIndex Starvation::best_gpu(const Program &starving) const {
  GpuIndex best = kNoGpu;
  auto cost = [&](GpuIndex g) {
    return std::tuple(placement_.too_small(starving, g), state_.account(g).taken(starving),
                      missing(starving, g));
  };
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const Gpu &gpu = state_.gpu(g);
    if (!placement_.suits(starving, g) || least_need_of(starving, gpu) > gpu.total) continue;
    if (best == kNoGpu || cost(g) < cost(best)) best = g;
  }
  return best;
}

u64 Starvation::missing(const Program &starving, GpuIndex g) const {
  const GpuAccount &account = state_.account(g);
  u64 need = room_of(starving, state_.gpu(g), state_.settings);
  u64 coming = account.available() + account.freeing + account.staying_beside(starving);
  return need > coming ? need - coming : 0;
}

}  // namespace ckpt::manager
