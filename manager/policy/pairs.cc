// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/pairs.h"

#include <algorithm>

namespace ckpt::manager {
namespace {

constexpr size_t kMostKinds = 256;
constexpr double kLeastCalls = 24;
constexpr int kLeastReports = 3;
constexpr size_t kMostPieces = 63;
constexpr int kAgain = 20;
// Reports, and a share of the time.
constexpr int kMostAlone = 10, kFirstAlone = 10, kAloneShare = 100;

double seconds(Time t) { return std::chrono::duration<double>(t).count(); }

}  // namespace

void Pairs::Rate::add(Piece piece) {
  if (pieces.size() < kMostPieces)
    pieces.push_back(piece);
  else
    pieces[next++ % kMostPieces] = piece;
  calls = seconds = 0;
  for (const Piece &p : pieces) calls += p.calls, seconds += p.seconds;
  std::vector<Piece> sorted = pieces;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle, {}, &Piece::rate);
  per_second = middle->rate();
}

// ---- kinds

KindIndex Pairs::index_of(Time now, u64 hash, const std::string &name) {
  auto [it, is_new] = index_.try_emplace(hash, static_cast<KindIndex>(kinds_.size()));
  if (is_new && kinds_.size() == kMostKinds) {
    auto oldest = std::ranges::min_element(kinds_, {}, &Kind::used);
    it->second = static_cast<KindIndex>(oldest - kinds_.begin());
    index_.erase(oldest->hash);
    forget(it->second);
  } else if (is_new) {
    kinds_.emplace_back();
  }
  Kind &k = kinds_[it->second];
  if (is_new) k.hash = hash, k.name = name;
  k.used = now;
  return it->second;
}

void Pairs::forget(KindIndex kind) {
  kinds_[kind] = {};
  for (Kind &k : kinds_)
    if (kind < k.beside.size()) k.beside[kind] = {};
}

const Pairs::Beside *Pairs::beside(KindIndex a, KindIndex b) const {
  bool there = a < kinds_.size() && b < kinds_[a].beside.size();
  return there ? &kinds_[a].beside[b] : nullptr;
}

Pairs::Beside &Pairs::beside(KindIndex a, KindIndex b) {
  std::vector<Beside> &row = kinds_[a].beside;
  if (row.size() <= b) row.resize(b + 1);
  return row[b];
}

// ---- what is known of two

bool Pairs::enough(const Rate &r) const {
  return r.calls >= kLeastCalls && r.seconds >= seconds(report_) * kLeastReports;
}

bool Pairs::both_known(KindIndex a, KindIndex b) const {
  const Beside *ab = beside(a, b), *ba = beside(b, a);
  return ab != nullptr && ba != nullptr && enough(ab->rate) && enough(ba->rate);
}

std::optional<double> Pairs::together(KindIndex a, KindIndex b) const {
  if (!both_known(a, b) || !enough(kinds_[a].alone) || !enough(kinds_[b].alone))
    return std::nullopt;
  return beside(a, b)->rate.per_second / kinds_[a].alone.per_second +
         beside(b, a)->rate.per_second / kinds_[b].alone.per_second;
}

void Pairs::measured(Time now, KindIndex who, KindIndex other, u64 calls, Time time) {
  if (who >= kinds_.size() || time <= Time{0}) return;
  Rate &rate = other == kNoKind ? kinds_[who].alone : beside(who, other).rate;
  rate.add({static_cast<float>(calls), static_cast<float>(seconds(time))});
  if (other != kNoKind) return judge(now, who, other, true);
  for (KindIndex k = 0; k < kinds_[who].beside.size(); k++) judge(now, who, k, false);
}

// The verdict stands in both rows. What is learned of one alone may change it, but not how long it
// is believed, or the two would never be tried again.
void Pairs::judge(Time now, KindIndex a, KindIndex b, bool fresh) {
  std::optional<double> sum = together(a, b);
  if (!sum) return;
  Beside *both[] = {&beside(a, b), &beside(b, a)};
  double measured = std::min(both[0]->rate.seconds, both[1]->rate.seconds);
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
  if (!both_known(a, b) || enough(kinds_[a].alone)) return false;
  if (!kinds_[a].alone_since) kinds_[a].alone_since = now;
  if (first_alone_ == Time{0}) first_alone_ = now;
  if (spent_alone_ >= report_ * kFirstAlone + (now - first_alone_) / kAloneShare) return false;
  if (now - *kinds_[a].alone_since >= report_ * kMostAlone) return false;
  if (now - last_alone_ <= report_ * 2) spent_alone_ += now - last_alone_;
  last_alone_ = now;
  return true;
}

// ---- ends

void Pairs::over(KindIndex kind, u64 calls) {
  if (kind >= kinds_.size() || calls == 0) return;
  u64 &whole = kinds_[kind].whole;
  whole = whole == 0 ? calls : whole / 2 + calls / 2;
}

std::vector<Pairs::Finding> Pairs::findings(Time now) const {
  std::vector<Finding> all;
  for (KindIndex a = 0; a < kinds_.size(); a++)
    for (KindIndex b = 0; b <= a; b++)
      if (std::optional<double> sum = together(a, b))
        all.push_back({kinds_[a].name, kinds_[b].name, *sum, apart(now, a, b)});
  return all;
}

}  // namespace ckpt::manager
