// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/progress.h"

#include <algorithm>

namespace ckpt::manager {

namespace in = managed::to_manager;

namespace {

// The first calls prepare data, and are not typical.
constexpr u64 kPreparationCalls = 16;
// The memory that a workload has used is kept for a program for this many times
// Settings::min_residency.
constexpr int kExpectationFactor = 10;

}  // namespace

void Progress::on(Program &p, const in::Workload &m) {
  p.workload.hash = m.hash;
  p.workload.profile = profile_of(p);
  profiles_.holds(p.workload.profile, p.workload.peak);
}

// The profile may have been replaced since the last time.
ProfileIndex Progress::profile_of(const Program &p) {
  if (p.workload.hash == 0) return kNoProfile;
  WorkloadProfiles::Found found = profiles_.find(state_.now, p.workload.hash, p.name);
  if (found.is_new) interference_.forget(found.index);
  return found.index;
}

// No value unless all programs of the GPU do nothing but run.
std::optional<Progress::Neighbours> Progress::neighbours_of(const Program &p) const {
  if (!p.is(Phase::Assigned) || !p.context() || p.gpu() == kNoGpu || p.blocked())
    return std::nullopt;
  if (state_.gpu(p.gpu()).foreign) return std::nullopt;
  Neighbours n;
  for (const auto &q : state_.programs) {
    if (q.get() == &p || q->gpu() != p.gpu()) continue;
    if (q->is(Phase::Assigned) && !q->context()) continue;  // uses nothing yet
    if (!q->is(Phase::Assigned) || q->blocked()) return std::nullopt;
    n.count++;
    n.last = q->workload.profile;
  }
  return n;
}

// An interval begins and ends with a call, so work that was enqueued in advance does not matter. It
// counts if the programs on the GPU were the same at both ends and in between.
void Progress::on(Program &p, const in::Progress &m) {
  Workload &w = p.workload;
  w.calls = m.calls;
  if (w.hash == 0) return;
  w.profile = profile_of(p);
  std::optional<Neighbours> beside = neighbours_of(p);
  Time last = state_.now - Time(m.idle_us);
  Interval &i = w.interval;
  u64 occupancy = beside ? state_.gpu(p.gpu()).occupancy : 0;
  if (occupancy == 0 || occupancy != i.occupancy) {
    i = {.occupancy = occupancy, .since = state_.now};
    return;
  }
  if (last < i.since || m.calls < kPreparationCalls) return;
  if (i.begun && m.calls <= i.calls) return;
  bool one_workload = beside->count == 0 || (beside->count == 1 && beside->last != kNoProfile);
  if (i.begun) profiles_.copied(w.profile, m.copied - std::min(i.copied, m.copied), last - i.at);
  if (i.begun && one_workload)
    interference_.measured(state_.now, w.profile, beside->count == 0 ? kNoProfile : beside->last,
                           m.calls - i.calls, last - i.at);
  i.begun = true;
  i.calls = m.calls;
  i.copied = m.copied;
  i.at = last;
}

void Progress::note_peak(Program &p) {
  u64 now = p.used + p.variables + p.requested();
  if (now <= p.workload.peak) return;
  p.workload.peak = now;
  profiles_.holds(p.workload.profile, now);
}

// The program's own peak is the better one: what the Manager has counted includes denied requests,
// and lacks credit.
void Progress::ended(Program &p, u64 peak) {
  profiles_.ended(profile_of(p), p.workload.calls, peak != 0 ? peak : p.workload.peak);
  profiles_.worked(p.workload.profile, p.workload.computed);
}

void Progress::update_expectations() {
  for (const auto &p : state_.programs) expect(*p);
}

bool Progress::has_shown_need(const Program &p) const {
  const Settings &s = state_.settings;
  std::optional<Time> starving = p.starving_since();
  if (starving && state_.now - *starving >= s.pairing_limit) return true;
  Time present = p.is(Phase::Assigned) ? state_.now - p.since : Time{0};
  Time on_gpus = p.workload.residency + present;
  return on_gpus > Time{0} && on_gpus >= s.min_residency * kExpectationFactor;
}

// Earlier runs matter only until the program has shown by itself how much memory it needs. They
// must not delay the starving program, or others because of it, without end.
void Progress::expect(Program &p) const {
  const Settings &s = state_.settings;
  Workload &w = p.workload;
  if (!profiles_.is(w.profile, w.hash)) w.profile = kNoProfile;
  if (s.placement == PlacementMode::Demand) w.demand = profiles_.demand(w.profile);
  w.settled = w.settled || has_shown_need(p);
  u64 most = s.program_bytes != 0 ? s.program_bytes : ~u64{0};
  w.expected = w.settled ? 0 : std::min(profiles_.peak(w.profile), most);
}

}  // namespace ckpt::manager
