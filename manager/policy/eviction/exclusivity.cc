// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/exclusivity.h"

namespace ckpt::manager {

// A program that cannot leave would block the program that the GPU is cleared for, so it goes
// first.
bool Exclusivity::is_alone(const Program &p) const {
  const GpuAccount &account = state_.account(p.gpu());
  bool taken = account.taken(p) && eviction_.can_leave(p);
  return !taken && account.programs == 1 && account.stayers == 0 && !state_.gpu(p.gpu()).dying;
}

// The code has not run yet, so `p` can still leave: for an empty GPU, or because the others cannot
// leave. Otherwise the others leave. If two programs of a GPU ask for this, the second counts as
// any other program: it leaves, and resumes alone.
void Exclusivity::make_alone(Program &p) {
  bool clears = p.cleared_gpu == p.gpu() && may_clear_own(p);
  bool can_leave = eviction_.can_leave(p);
  GpuIndex empty = clears || !can_leave ? kNoGpu : other_empty_gpu(p);
  p.cleared_gpu = empty != kNoGpu ? empty : may_clear_own(p) ? p.gpu() : kNoGpu;
  if (p.cleared_gpu != kNoGpu) state_.account(p.cleared_gpu).exclusive = &p;
  if (p.cleared_gpu == p.gpu()) return evict_others(p);
  if (eviction_.can_leave(p)) eviction_.suspend(p);
}

bool Exclusivity::may_clear_own(const Program &p) const {
  return !state_.account(p.gpu()).taken(p) && cost_to_clear(p.gpu(), p).has_value();
}

GpuIndex Exclusivity::other_empty_gpu(const Program &p) {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    if (g != p.gpu() && placement_.may_enter(p, g)) return g;
  return kNoGpu;
}

void Exclusivity::clear_gpu(Program &p) {
  GpuIndex cheapest = cheapest_to_clear(p);
  GpuIndex &target = p.cleared_gpu;
  bool still_good =
      target != kNoGpu && placement_.suits(p, target) && cost_to_clear(target, p).has_value();
  if (!still_good && cheapest != kNoGpu) {
    if (target != kNoGpu && state_.account(target).exclusive == &p)
      state_.account(target).exclusive = nullptr;
    target = cheapest;
    state_.account(target).exclusive = &p;
  }
  if (target != kNoGpu) evict_others(p);
}

GpuIndex Exclusivity::cheapest_to_clear(const Program &p) const {
  GpuIndex best = kNoGpu;
  std::optional<u64> least;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const Gpu &gpu = state_.gpu(g);
    const GpuAccount &account = state_.account(g);
    if (!placement_.suits(p, g) || account.taken(p) || account.kept_from(p)) continue;
    if (least_need_of(p, gpu) > gpu.total) continue;
    std::optional<u64> cost = cost_to_clear(g, p);
    if (!cost || (least && *cost >= *least)) continue;
    best = g;
    least = cost;
  }
  return best;
}

// The bytes that all programs but `p` have there; no value: one of them cannot leave.
std::optional<u64> Exclusivity::cost_to_clear(GpuIndex g, const Program &p) const {
  u64 bytes = 0;
  for (const auto &q : state_.programs) {
    if (q.get() == &p) continue;
    if (q->stay() != nullptr && q->stay()->gpu == g && q->stay()->fixed) return std::nullopt;
    if (q->gpu() != g) continue;
    bool stays = q->is(Phase::Assigned) && !eviction_.can_leave(*q);
    if (q->unresponsive() || stays) return std::nullopt;
    bytes += q->used + 1;
  }
  return bytes;
}

void Exclusivity::evict_others(Program &exclusive) {
  for (const auto &q : state_.programs)
    if (q.get() != &exclusive && q->gpu() == exclusive.cleared_gpu && q->is(Phase::Assigned) &&
        eviction_.can_leave(*q) && state_.has_run(*q, state_.settings.min_residency))
      eviction_.signal(*q);
}

}  // namespace ckpt::manager
