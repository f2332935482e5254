// SPDX-License-Identifier: Apache-2.0
//
// What programs tell of their progress, and what it is good for: who is put together with whom
// (interference.h), and who is not worth an eviction any more.
#include <algorithm>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace in = managed::to_manager;

namespace {

// Of a program's beginning: it prepares its data, and is not what it will be.
constexpr u64 kPreparation = 16;
// A program that has made so much of the calls that its profile usually makes is nearly over.
constexpr double kNearlyOver = 0.8, kMuchOver = 1.2;
// … and one that was evicted is spared for so many times Settings::min_residency after its return.
constexpr int kSpared = 10;

}  // namespace

void Policy::on(Program &p, const in::Workload &m) {
  p.workload_hash = m.hash;
  p.profile = profile_of(p);
  profiles_.holds(p.profile, p.peak);
}

// Of very many profiles its own may have had to make room.
ProfileIndex Policy::profile_of(const Program &p) {
  if (p.workload_hash == 0) return kNoProfile;
  WorkloadProfiles::Found found = profiles_.find(now_, p.workload_hash, p.name);
  if (found.is_new) interference_.forget(found.index);
  return found.index;
}

// Who is on its GPU with it, as long as all of them do nothing but run.
std::optional<Policy::Company> Policy::company_of(const Program &p) const {
  if (p.phase != Phase::Assigned || !p.context || p.gpu == kNoGpu || p.blocked())
    return std::nullopt;
  if (gpus_[static_cast<size_t>(p.gpu)].foreign) return std::nullopt;
  Company c;
  for (const auto &q : programs_) {
    if (q->gpu != p.gpu || !q->on_gpu()) continue;
    bool runs = q->phase == Phase::Assigned && (q->context || q.get() == &p) && !q->blocked();
    bool is_nothing_yet = q->phase == Phase::Assigned && !q->context;
    if (is_nothing_yet) continue;
    if (!runs) return std::nullopt;
    if (q.get() != &p) c.others++, c.beside = q->profile;
  }
  return c;
}

// A stretch begins and ends with a call, so that what a program has enqueued credit of its device
// does not matter; it counts if the company was the same at both ends and in between.
void Policy::on(Program &p, const in::Progress &m) {
  p.calls = m.calls;
  if (p.workload_hash == 0) return;
  p.profile = profile_of(p);
  std::optional<Company> company = company_of(p);
  Time last = now_ - Time(m.idle_us);
  Stretch &s = p.stretch;
  u64 number = company ? gpu_of(p).company : 0;
  if (number == 0 || number != s.company) {
    s = {.company = number, .since = now_};
    return;
  }
  if (last < s.since || m.calls < kPreparation) return;
  bool one_kind = company->others == 0 || (company->others == 1 && company->beside != kNoProfile);
  if (s.begun && m.calls <= s.calls) return;
  if (s.begun) profiles_.copied(p.profile, m.copied - std::min(s.copied, m.copied), last - s.at);
  if (s.begun && one_kind)
    interference_.measured(now_, p.profile, company->others == 0 ? kNoProfile : company->beside,
                           m.calls - s.calls, last - s.at);
  s.begun = true;
  s.calls = m.calls;
  s.copied = m.copied;
  s.at = last;
}

// Two that lose together: the second one waits, as it would with one program per GPU. Nobody waits
// so for ever: who has become the starving is let in after a while, and meanwhile nobody comes in
// that would keep it out.
bool Policy::kept_apart(const Program &p, GpuIndex g) {
  if (settings_.placement != PlacementMode::Interference || p.profile == kNoProfile) return false;
  if (p.starving_since && now_ - *p.starving_since >= settings_.pairing_limit) return false;
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  for (ProfileIndex k : account.profiles)
    if (interference_.apart(now_, p.profile, k)) return true;
  if (account.starving != nullptr && account.starving != &p &&
      interference_.apart(now_, p.profile, account.starving->profile))
    return true;
  return account.programs == 1 && account.profiles.size() == 1 &&
         interference_.wants_alone(now_, account.profiles[0], p.profile);
}

bool Policy::spared(const Program &p) const {
  double whole = static_cast<double>(profiles_.calls(p.profile)),
         calls = static_cast<double>(p.calls);
  bool nearly_over = calls > whole * kNearlyOver && calls < whole * kMuchOver;
  bool just_back = p.evictions > 0 && !has_run(p, settings_.min_residency * kSpared);
  return nearly_over || just_back;
}

}  // namespace ckpt::manager
