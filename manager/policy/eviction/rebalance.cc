// SPDX-License-Identifier: Apache-2.0
//
// The end of a day's work: some GPUs have nobody left, and on others programs share. Whatever
// sharing gains, two GPUs are faster than one, so one of those that share moves over. It leaves as
// any victim does, and place() finds the empty GPU for it.
#include <algorithm>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace {

// What a move costs is paid by what has been computed already, so many times: who has run for long
// is expected to run for as long again.
constexpr i64 kWorth = 10;

// Out and in at 2 GB/s each, as nothing is known of this node.
Time move_time(const Program &p) {
  return Time(static_cast<i64>((p.used + p.variables) / 1000));  // 1 GB/s, in microseconds
}

}  // namespace

void Policy::balance() {
  if (settings_.rebalance_after == Time{0}) return;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    if (!is_idle(g)) continue;
    Program *mover = who_moves_to(g);
    if (mover == nullptr) continue;
    signal(*mover);
    mover->moves = true;
    return;  // one at a time
  }
}

// It is about to leave: has nobody come in between?
bool Policy::may_still_move(const Program &p) const {
  if (!p.moves) return false;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    auto there = [g](const auto &q) { return q->gpu == g && q->on_gpu(); };
    if (suits(p, g) && std::ranges::none_of(programs_, there)) return true;
  }
  return false;
}

// Nobody is there, is about to be, or could be in a moment.
bool Policy::is_idle(GpuIndex g) const {
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  if (account.programs > 0 || account.exclusive != nullptr || account.starving != nullptr)
    return false;
  return std::ranges::none_of(programs_, [&](const auto &p) {
    bool coming = p->waiting() || (p->phase == Phase::Evicting && !p->stuck);
    return coming && suits(*p, g);
  });
}

// Of the fullest GPU, who has the least to move.
Program *Policy::who_moves_to(GpuIndex empty) {
  Program *best = nullptr;
  auto company = [this](const Program &p) { return account_of(p).programs; };
  for (const auto &p : programs_) {
    if (!shares(*p) || !may_move(*p, empty)) continue;
    bool better = best == nullptr || company(*p) > company(*best) ||
                  (company(*p) == company(*best) && p->used < best->used);
    if (better) best = p.get();
  }
  return best;
}

bool Policy::shares(const Program &p) const {
  return p.phase == Phase::Assigned && p.gpu != kNoGpu &&
         accounting_.gpus[static_cast<size_t>(p.gpu)].programs > 1;
}

// Sooner or later. Where it has failed to return it is not sent without need.
bool Policy::could_move(const Program &p, GpuIndex to) const {
  return p.context && suits(p, to) && !p.wants_alone() && can_leave(p) && p.failures(to) == 0;
}

bool Policy::may_move(const Program &p, GpuIndex to) const {
  const Gpu &gpu = gpus_[static_cast<size_t>(to)];
  return could_move(p, to) && p.requests.empty() &&
         need_of(p, gpu, settings_) <= accounting_.gpus[static_cast<size_t>(to)].available() &&
         has_run(p, settings_.rebalance_after + kWorth * move_time(p));
}

// Time alone may bring a move. Asked between decisions, when the accounting are those of the last
// one.
bool Policy::may_balance() const {
  if (settings_.rebalance_after == Time{0}) return false;
  std::vector<u32> there(gpus_.size());
  for (const auto &p : programs_)
    if (p->gpu != kNoGpu && p->on_gpu()) there[static_cast<size_t>(p->gpu)]++;
  for (size_t g = 0; g < there.size(); g++)
    if (there[g] == 0 && std::ranges::any_of(programs_, [&](const auto &p) {
          return p->phase == Phase::Assigned && p->gpu != kNoGpu &&
                 there[static_cast<size_t>(p->gpu)] > 1 && could_move(*p, static_cast<GpuIndex>(g));
        }))
      return true;
  return false;
}

}  // namespace ckpt::manager
