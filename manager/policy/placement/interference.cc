// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/placement/interference.h"

#include <algorithm>

namespace ckpt::manager {
namespace {

constexpr double kLeastCalls = 24;
constexpr int kLeastReports = 3;
constexpr int kAgain = 20;
// Reports, and a share of the time.
constexpr int kMostAlone = 10, kFirstAlone = 10, kAloneShare = 100;

}  // namespace

// ---- what is known of two

Interference::Row &Interference::row(ProfileIndex profile) {
  if (rows_.size() <= profile) rows_.resize(profile + 1);
  return rows_[profile];
}

void Interference::forget(ProfileIndex profile) {
  row(profile) = {};
  for (Row &r : rows_)
    if (profile < r.beside.size()) r.beside[profile] = {};
}

const Interference::Beside *Interference::beside(ProfileIndex a, ProfileIndex b) const {
  bool there = a < rows_.size() && b < rows_[a].beside.size();
  return there ? &rows_[a].beside[b] : nullptr;
}

Interference::Beside &Interference::beside(ProfileIndex a, ProfileIndex b) {
  std::vector<Beside> &all = row(a).beside;
  if (all.size() <= b) all.resize(b + 1);
  return all[b];
}

bool Interference::enough(const Rate &r) const {
  return r.amount() >= kLeastCalls && r.duration() >= seconds(report_) * kLeastReports;
}

bool Interference::both_known(ProfileIndex a, ProfileIndex b) const {
  const Beside *ab = beside(a, b), *ba = beside(b, a);
  return ab != nullptr && ba != nullptr && enough(ab->rate) && enough(ba->rate);
}

std::optional<double> Interference::together(ProfileIndex a, ProfileIndex b) const {
  if (!both_known(a, b) || !enough(rows_[a].alone) || !enough(rows_[b].alone)) return std::nullopt;
  return beside(a, b)->rate.median() / rows_[a].alone.median() +
         beside(b, a)->rate.median() / rows_[b].alone.median();
}

void Interference::measured(Time now, ProfileIndex who, ProfileIndex other, u64 calls, Time time) {
  if (who == kNoProfile || time <= Time{0}) return;
  Rate &rate = other == kNoProfile ? row(who).alone : beside(who, other).rate;
  rate.add(static_cast<double>(calls), time);
  if (other != kNoProfile) return judge(now, who, other, true);
  for (ProfileIndex k = 0; k < rows_[who].beside.size(); k++) judge(now, who, k, false);
}

// The verdict stands in both rows. What is learned of one alone may change it, but not how long it
// is believed, or the two would never be tried again.
void Interference::judge(Time now, ProfileIndex a, ProfileIndex b, bool fresh) {
  std::optional<double> sum = together(a, b);
  if (!sum) return;
  Beside *both[] = {&beside(a, b), &beside(b, a)};
  double measured = std::min(both[0]->rate.duration(), both[1]->rate.duration());
  Time until = now + std::chrono::microseconds(static_cast<i64>(measured * 1e6)) * kAgain;
  for (Beside *x : both) {
    x->poor = *sum < 1;
    if (fresh || !x->judged) x->apart_until = until;
    x->judged = true;
  }
}

bool Interference::apart(Time now, ProfileIndex a, ProfileIndex b) const {
  const Beside *x = beside(a, b);
  return x != nullptr && x->poor && now < x->apart_until;
}

bool Interference::wants_alone(Time now, ProfileIndex a, ProfileIndex b) {
  if (!both_known(a, b) || enough(rows_[a].alone)) return false;
  if (!rows_[a].alone_since) rows_[a].alone_since = now;
  if (first_alone_ == Time{0}) first_alone_ = now;
  if (spent_alone_ >= report_ * kFirstAlone + (now - first_alone_) / kAloneShare) return false;
  if (now - *rows_[a].alone_since >= report_ * kMostAlone) return false;
  if (now - last_alone_ <= report_ * 2) spent_alone_ += now - last_alone_;
  last_alone_ = now;
  return true;
}

std::vector<Interference::Finding> Interference::findings(Time now) const {
  std::vector<Finding> all;
  for (ProfileIndex a = 0; a < rows_.size(); a++)
    for (ProfileIndex b = 0; b <= a; b++)
      if (std::optional<double> sum = together(a, b)) all.push_back({a, b, *sum, apart(now, a, b)});
  return all;
}

}  // namespace ckpt::manager
