// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/work.h"

#include <algorithm>

namespace ckpt::manager {

namespace {

// Beyond this multiple of an earlier run, that run says nothing about a program.
constexpr double kOverdue = 1.2;

}  // namespace

void Work::computed(Time now, Program &p, Time kernels) {
  p.workload.computed += kernels;
  p.workload.computed_at = now;
  profiles_.sampled(p.workload.profile);
  samples_.resize(state_.gpus.size());
  if (p.gpu() != kNoGpu) samples_[static_cast<size_t>(p.gpu())].kernels += kernels;
}

void Work::measured(Time now) {
  samples_.resize(state_.gpus.size());
  Time span = now - std::exchange(last_, now);
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    Sample &s = samples_[static_cast<size_t>(g)];
    u64 occupancy = state_.gpu(g).occupancy;
    if (occupancy == s.occupancy && span > Time{0}) observe(g, s.kernels, span);
    s = {Time{0}, occupancy};
  }
}

// Programs that copy keep the engine busy for a part of their time only, so what it is without work
// is the other program's doing.
void Work::observe(GpuIndex g, Time kernels, Time span) {
  const Program *only = nullptr;
  for (const auto &p : state_.programs) {
    if (p->gpu() != g) continue;
    if (!p->is(Phase::Assigned)) return;
    if (p->workload.demand.role() == Role::Copies) continue;
    if (only != nullptr) return;
    only = p.get();
  }
  if (only != nullptr) profiles_.occupied(only->workload.profile, kernels, span);
}

std::optional<Time> Work::left(const Program &p) const {
  Time whole = profiles_.work(p.workload.profile);
  if (whole == Time{0} || overdue(p)) return std::nullopt;
  return whole - std::min(whole, p.workload.computed);
}

bool Work::is_sampled(const Program &p) const { return profiles_.is_sampled(p.workload.profile); }

bool Work::overdue(const Program &p) const {
  Time whole = profiles_.work(p.workload.profile);
  return whole > Time{0} && seconds(p.workload.computed) > kOverdue * seconds(whole);
}

}  // namespace ckpt::manager
