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

Pairs::Row &Pairs::row(KindIndex kind) {
  if (rows_.size() <= kind) rows_.resize(kind + 1);
  return rows_[kind];
}

void Pairs::forget(KindIndex kind) {
  row(kind) = {};
  for (Row &r : rows_)
    if (kind < r.beside.size()) r.beside[kind] = {};
}

const Pairs::Beside *Pairs::beside(KindIndex a, KindIndex b) const {
  bool there = a < rows_.size() && b < rows_[a].beside.size();
  return there ? &rows_[a].beside[b] : nullptr;
}

Pairs::Beside &Pairs::beside(KindIndex a, KindIndex b) {
  std::vector<Beside> &all = row(a).beside;
  if (all.size() <= b) all.resize(b + 1);
  return all[b];
}

bool Pairs::enough(const Rate &r) const {
  return r.amount() >= kLeastCalls && r.duration() >= seconds(report_) * kLeastReports;
}

bool Pairs::both_known(KindIndex a, KindIndex b) const {
  const Beside *ab = beside(a, b), *ba = beside(b, a);
  return ab != nullptr && ba != nullptr && enough(ab->rate) && enough(ba->rate);
}

std::optional<double> Pairs::together(KindIndex a, KindIndex b) const {
  if (!both_known(a, b) || !enough(rows_[a].alone) || !enough(rows_[b].alone)) return std::nullopt;
  return beside(a, b)->rate.median() / rows_[a].alone.median() +
         beside(b, a)->rate.median() / rows_[b].alone.median();
}

void Pairs::measured(Time now, KindIndex who, KindIndex other, u64 calls, Time time) {
  if (who == kNoKind || time <= Time{0}) return;
  Rate &rate = other == kNoKind ? row(who).alone : beside(who, other).rate;
  rate.add(static_cast<double>(calls), time);
  if (other != kNoKind) return judge(now, who, other, true);
  for (KindIndex k = 0; k < rows_[who].beside.size(); k++) judge(now, who, k, false);
}

// The verdict stands in both rows. What is learned of one alone may change it, but not how long it
// is believed, or the two would never be tried again.
void Pairs::judge(Time now, KindIndex a, KindIndex b, bool fresh) {
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

bool Pairs::apart(Time now, KindIndex a, KindIndex b) const {
  const Beside *x = beside(a, b);
  return x != nullptr && x->poor && now < x->apart_until;
}

bool Pairs::wants_alone(Time now, KindIndex a, KindIndex b) {
  if (!both_known(a, b) || enough(rows_[a].alone)) return false;
  if (!rows_[a].alone_since) rows_[a].alone_since = now;
  if (first_alone_ == Time{0}) first_alone_ = now;
  if (spent_alone_ >= report_ * kFirstAlone + (now - first_alone_) / kAloneShare) return false;
  if (now - *rows_[a].alone_since >= report_ * kMostAlone) return false;
  if (now - last_alone_ <= report_ * 2) spent_alone_ += now - last_alone_;
  last_alone_ = now;
  return true;
}

std::vector<Pairs::Finding> Pairs::findings(Time now) const {
  std::vector<Finding> all;
  for (KindIndex a = 0; a < rows_.size(); a++)
    for (KindIndex b = 0; b <= a; b++)
      if (std::optional<double> sum = together(a, b)) all.push_back({a, b, *sum, apart(now, a, b)});
  return all;
}

}  // namespace ckpt::manager
