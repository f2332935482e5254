// SPDX-License-Identifier: Apache-2.0
//
// What is made of profiles: how much memory a program will need, and who suits a GPU's company
// (PlacementMode::Demand). Where there is room beside programs that run, the next
// in order may be passed over for one of those behind it, which needs more of what they leave idle:
// one that copies beside one that computes. Nobody is passed over more than a few times, and never
// for somebody less important.
#include <algorithm>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace {

// With four of sixteen there is as much to gain as with any number, if programs get on as in Mobile
// CUDA's matrix of interference (bench/mobile/predict).
constexpr u32 kMostPassed = 4;
constexpr size_t kMostLooked = 16;
// So much less they must keep the GPU busy, or what is known of them does not tell the two apart.
constexpr double kBetter = 0.95;
// What others of its profile have had is kept for a program for so many times
// Settings::min_residency.
constexpr int kExpected = 10;

// What OpenCL programs copy is not told.
bool shows_demand(const Program &p) {
  return p.profile != kNoProfile && (p.apis & managed::kCuda) != 0;
}

}  // namespace

// What profiles have shown since the last time. Of memory, it matters until a program has shown by
// itself how much it needs; and an starving is not kept waiting for it for ever, nor keeps others
// so.
void Policy::update_expectations() {
  u64 most = settings_.program_bytes != 0 ? settings_.program_bytes : ~u64{0};
  for (const auto &p : programs_) {
    if (!profiles_.is(p->profile, p->workload_hash)) p->profile = kNoProfile;
    if (settings_.placement == PlacementMode::Demand) p->demand = profiles_.demand(p->profile);
    Time there = p->phase == Phase::Assigned ? p->placed + (now_ - p->since) : p->placed;
    bool waits_long = p->starving_since && now_ - *p->starving_since >= settings_.pairing_limit;
    bool ran = there > Time{0} && there >= settings_.min_residency * kExpected;
    p->settled = p->settled || waits_long || ran;
    p->expected = p->settled ? 0 : std::min(profiles_.peak(p->profile), most);
  }
}

// Others of its profile have had more than it can have there.
bool Policy::too_small(const Program &p, GpuIndex g) const {
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  return need_of(p, gpu, settings_) > gpu.total;
}

void Policy::note_peak(Program &p) {
  u64 now = p.used + p.variables + p.requested();
  if (now <= p.peak) return;
  p.peak = now;
  profiles_.holds(p.profile, now);
}

double Policy::stretch_with(const Program &p, GpuIndex g) const {
  Load load = accounting_.gpus[static_cast<size_t>(g)].load;
  load.add(p.demand);
  return load.stretch();
}

// Of those behind `*next`, who is better company on `g`; otherwise null.
Program *Policy::better_company(std::span<Program *const> behind, const Program &next, GpuIndex g) {
  GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  bool chooses =
      settings_.placement == PlacementMode::Demand && account.programs > 0 && next.demand.known;
  if (!chooses || next.previous_gpu != kNoGpu || next.wants_alone() || next.passed >= kMostPassed)
    return nullptr;
  // Whoever goes in its place may have what is kept for it.
  const Program *kept_there = account.starving, *kept = accounting_.starving;
  if (kept_there == &next) account.starving = nullptr;
  if (kept == &next) accounting_.starving = nullptr;
  Program *best = nullptr;
  double least = stretch_with(next, g) * kBetter;
  for (Program *q : behind.first(std::min(behind.size(), kMostLooked))) {
    bool may = q->waiting() && shows_demand(*q) && !q->wants_alone() && now_ >= q->not_before &&
               q->priority >= next.priority;
    bool failed = q->failures(g) > next.failures(g);
    if (!may || failed || stretch_with(*q, g) >= least || !may_enter(*q, g)) continue;
    best = q;
    least = stretch_with(*q, g);
  }
  account.starving = kept_there;
  accounting_.starving = kept;
  return best;
}

}  // namespace ckpt::manager
