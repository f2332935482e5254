// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/placement/interference.h"

#include <algorithm>

namespace ckpt::manager {
namespace {

constexpr double kMinCalls = 24;
constexpr int kMinReports = 3;
constexpr int kRetryFactor = 20;
// Waits for a rate alone: at most this many reports for each workload; for all of them together
// this many reports, and one in so many of all time.
constexpr int kMaxReportsAlone = 10, kInitialReportsAlone = 10, kTimePerAlone = 100;

}  // namespace

Interference::Row &Interference::row(ProfileIndex profile) {
  if (rows_.size() <= profile) rows_.resize(profile + 1);
  return rows_[profile];
}

void Interference::forget(ProfileIndex profile) {
  row(profile) = {};
  for (Row &r : rows_)
    if (profile < r.beside.size()) r.beside[profile] = {};
}

const Interference::Pair *Interference::pair(ProfileIndex a, ProfileIndex b) const {
  bool there = a < rows_.size() && b < rows_[a].beside.size();
  return there ? &rows_[a].beside[b] : nullptr;
}

Interference::Pair &Interference::pair(ProfileIndex a, ProfileIndex b) {
  std::vector<Pair> &all = row(a).beside;
  if (all.size() <= b) all.resize(b + 1);
  return all[b];
}

bool Interference::enough(const Rate &r) const {
  return r.amount() >= kMinCalls && r.duration() >= seconds(interval_) * kMinReports;
}

bool Interference::both_known(ProfileIndex a, ProfileIndex b) const {
  const Pair *ab = pair(a, b), *ba = pair(b, a);
  return ab != nullptr && ba != nullptr && enough(ab->rate) && enough(ba->rate);
}

std::optional<double> Interference::throughput(ProfileIndex a, ProfileIndex b) const {
  if (!both_known(a, b) || !enough(rows_[a].alone) || !enough(rows_[b].alone)) return std::nullopt;
  return pair(a, b)->rate.median() / rows_[a].alone.median() +
         pair(b, a)->rate.median() / rows_[b].alone.median();
}

void Interference::measured(Time now, ProfileIndex profile, ProfileIndex other, u64 calls,
                            Time time) {
  if (profile == kNoProfile || time <= Time{0}) return;
  Rate &rate = other == kNoProfile ? row(profile).alone : pair(profile, other).rate;
  rate.add(static_cast<double>(calls), time);
  if (other != kNoProfile) return judge(now, profile, other, true);
  for (ProfileIndex k = 0; k < rows_[profile].beside.size(); k++) judge(now, profile, k, false);
}

// The finding is kept in both rows. A new rate of one of them alone may change the finding, but
// must not extend it, or the two would never be tried again.
void Interference::judge(Time now, ProfileIndex a, ProfileIndex b, bool observed_together) {
  std::optional<double> sum = throughput(a, b);
  if (!sum) return;
  Pair *both[] = {&pair(a, b), &pair(b, a)};
  double measured = std::min(both[0]->rate.duration(), both[1]->rate.duration());
  Time until = now + std::chrono::microseconds(static_cast<i64>(measured * 1e6)) * kRetryFactor;
  for (Pair *x : both) {
    x->loses = *sum < 1;
    if (observed_together || !x->judged) x->apart_until = until;
    x->judged = true;
  }
}

bool Interference::kept_apart(Time now, ProfileIndex a, ProfileIndex b) const {
  const Pair *x = pair(a, b);
  return x != nullptr && x->loses && now < x->apart_until;
}

bool Interference::needs_rate_alone(Time now, ProfileIndex a, ProfileIndex b) {
  if (!both_known(a, b) || enough(rows_[a].alone)) return false;
  if (!rows_[a].alone_since) rows_[a].alone_since = now;
  if (first_alone_ == Time{0}) first_alone_ = now;
  Time budget = interval_ * kInitialReportsAlone + (now - first_alone_) / kTimePerAlone;
  if (spent_alone_ >= budget) return false;
  if (now - *rows_[a].alone_since >= interval_ * kMaxReportsAlone) return false;
  if (now - last_alone_ <= interval_ * 2) spent_alone_ += now - last_alone_;
  last_alone_ = now;
  return true;
}

std::vector<Interference::Finding> Interference::findings(Time now) const {
  std::vector<Finding> all;
  for (ProfileIndex a = 0; a < rows_.size(); a++)
    for (ProfileIndex b = 0; b <= a; b++)
      if (std::optional<double> sum = throughput(a, b))
        all.push_back({a, b, *sum, kept_apart(now, a, b)});
  return all;
}

}  // namespace ckpt::manager
