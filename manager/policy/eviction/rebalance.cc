// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/rebalance.h"

#include <algorithm>

#include "manager/policy/eviction/move_time.h"

namespace ckpt::manager {

void Rebalance::run() {
  if (state_.settings.rebalance_after == Time{0}) return;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    if (!is_idle(g)) continue;
    Program *mover = choose(g);
    if (mover == nullptr) continue;
    eviction_.signal(*mover);
    std::get<Evicting>(mover->state).rebalancing = true;
    return;
  }
}

bool Rebalance::still_useful(const Program &p) const {
  auto *e = std::get_if<Evicting>(&p.state);
  if (e == nullptr || !e->rebalancing) return false;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    auto there = [g](const auto &q) { return q->gpu() == g; };
    if (placement_.suits(p, g) && std::ranges::none_of(state_.programs, there)) return true;
  }
  return false;
}

// No program is there, is about to be, or could be in a moment.
bool Rebalance::is_idle(GpuIndex g) const {
  const GpuAccount &account = state_.account(g);
  if (account.programs > 0 || account.exclusive != nullptr || account.starving != nullptr)
    return false;
  return std::ranges::none_of(state_.programs, [&](const auto &p) {
    bool coming = p->waiting() || (p->is(Phase::Evicting) && !p->unresponsive());
    return coming && placement_.suits(*p, g);
  });
}

// No value: it is not known of all programs there.
std::optional<Time> Rebalance::left_on(GpuIndex g) const {
  Time sum{0};
  for (const auto &p : state_.programs) {
    if (p->gpu() != g) continue;
    std::optional<Time> left = work_.left(*p);
    if (!left) return std::nullopt;
    sum += *left;
  }
  return sum;
}

// The program whose move makes a GPU end earliest, compared with now. Null: none gains twice what
// its move takes.
Program *Rebalance::choose_by_work(GpuIndex idle) const {
  Program *best = nullptr;
  Time most{0};
  for (const auto &p : state_.programs) {
    if (!shares(*p) || !could_move(*p, idle) || !has_room(*p, idle)) continue;
    if (!state_.has_run(*p, state_.settings.min_residency)) continue;
    std::optional<Time> there = left_on(p->gpu());
    if (!there) continue;
    Time left = *work_.left(*p),
         end = std::max(left + move_time(p->used + p->variables), *there - left);
    Time gain = *there - end;
    if (gain <= std::max(most, move_time(p->used + p->variables))) continue;
    best = p.get();
    most = gain;
  }
  return best;
}

// The smallest program of the most shared GPU, unless it is known what each has to do.
Program *Rebalance::choose(GpuIndex idle) const {
  if (Program *p = choose_by_work(idle)) return p;
  Program *best = nullptr;
  auto sharing = [this](const Program &p) { return state_.account(p.gpu()).programs; };
  for (const auto &p : state_.programs) {
    if (!shares(*p) || !may_move(*p, idle)) continue;
    bool better = best == nullptr || sharing(*p) > sharing(*best) ||
                  (sharing(*p) == sharing(*best) && p->used < best->used);
    if (better) best = p.get();
  }
  return best;
}

bool Rebalance::shares(const Program &p) const {
  return p.is(Phase::Assigned) && p.gpu() != kNoGpu && state_.account(p.gpu()).programs > 1;
}

// A program is not sent without need to a GPU on which it has failed to resume.
bool Rebalance::could_move(const Program &p, GpuIndex to) const {
  return p.context() && placement_.suits(p, to) && !p.wants_alone() && eviction_.can_leave(p) &&
         p.failures(to) == 0;
}

bool Rebalance::has_room(const Program &p, GpuIndex to) const {
  return p.requests.empty() &&
         need_of(p, state_.gpu(to), state_.settings) <= state_.account(to).available();
}

bool Rebalance::may_move(const Program &p, GpuIndex to) const {
  const Settings &s = state_.settings;
  return could_move(p, to) && has_room(p, to) &&
         state_.has_run(p,
                        s.rebalance_after + kMoveTimesToPayOff * move_time(p.used + p.variables));
}

// Counts the programs itself, because the accounting is that of the last decision.
bool Rebalance::is_possible() const {
  if (state_.settings.rebalance_after == Time{0}) return false;
  std::vector<u32> there(state_.gpus.size());
  for (const auto &p : state_.programs)
    if (p->gpu() != kNoGpu) there[static_cast<size_t>(p->gpu())]++;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    auto could = [&](const auto &p) {
      return p->is(Phase::Assigned) && p->gpu() != kNoGpu &&
             there[static_cast<size_t>(p->gpu())] > 1 && could_move(*p, g);
    };
    if (there[static_cast<size_t>(g)] == 0 && std::ranges::any_of(state_.programs, could))
      return true;
  }
  return false;
}

}  // namespace ckpt::manager
