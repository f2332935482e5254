// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/workload_profiles.h"

#include <algorithm>
#include <utility>

#include "common/base/fnv.h"

namespace ckpt::manager {

namespace {

constexpr size_t kMaxProfiles = 256;

// How fast the bus is, nobody says: whoever copies most is taken to need it for most of its time,
// and so is who copies half as much, as one does beside its like. What copies less needs it for
// less. On any bus so little is next to nothing:
constexpr double kBusy = 0.7, kSlowed = 2, kLeastBytesPerSecond = 1e8;
// Nor is any bus so fast: programs may say what they like.
constexpr double kMostBytesPerSecond = 1e12;
constexpr double kMostSeconds = 1e9;

u64 user_of(u64 hash) { return hash >> 32; }

}  // namespace

u64 hash_of_user(u32 user, u64 hash) {
  u64 whose = fnv1a(std::to_string(user)), what = fnv1a(std::to_string(user), hash);
  return (whose << 32) | ((what ^ (what >> 32)) & ~u32{0});
}

WorkloadProfiles::Profile &WorkloadProfiles::to_replace() {
  std::unordered_map<u64, size_t> of_user;
  for (const Profile &k : profiles_) of_user[user_of(k.hash)]++;
  auto rank = [&](const Profile &k) { return std::pair(~of_user[user_of(k.hash)], k.used); };
  return *std::ranges::min_element(profiles_, {}, rank);
}

WorkloadProfiles::Found WorkloadProfiles::find(Time now, u64 hash, const std::string &name) {
  auto [it, is_new] = index_.try_emplace(hash, static_cast<ProfileIndex>(profiles_.size()));
  if (is_new && profiles_.size() == kMaxProfiles) {
    Profile &oldest = to_replace();
    it->second = static_cast<ProfileIndex>(&oldest - profiles_.data());
    index_.erase(oldest.hash);
    oldest = {};
  } else if (is_new) {
    profiles_.emplace_back();
  }
  Profile &k = profiles_[it->second];
  if (is_new) k.hash = hash, k.name = name;
  k.used = now;
  return {it->second, is_new};
}

void WorkloadProfiles::holds(ProfileIndex profile, u64 bytes) {
  if (known(profile)) profiles_[profile].peak = std::max(profiles_[profile].peak, bytes);
}

void WorkloadProfiles::copied(ProfileIndex profile, u64 bytes, Time time) {
  if (!known(profile) || time <= Time{0}) return;
  double most = seconds(time) * kMostBytesPerSecond;
  profiles_[profile].copies.add(std::min(static_cast<double>(bytes), most), time);
  note_demands();
}

// All of them at once: what one asks for is told by who copies most. Asked far more often.
void WorkloadProfiles::note_demands() {
  double most = kLeastBytesPerSecond;
  for (const Profile &k : profiles_)
    if (k.shown()) most = std::max(most, k.copies.mean());
  for (Profile &k : profiles_) {
    if (!k.shown()) continue;
    double bus = kBusy * std::min(1.0, kSlowed * k.copies.mean() / most);
    k.demand = {.kernels = 1 - bus, .bus = bus, .known = true};
  }
}

void WorkloadProfiles::over(ProfileIndex profile, u64 calls, u64 peak) {
  if (!known(profile)) return;
  Profile &k = profiles_[profile];
  if (calls > 0) k.calls = k.calls == 0 ? calls : k.calls / 2 + calls / 2;
  if (peak > 0) k.peak = peak;
  changes_++;
}

void WorkloadProfiles::learn(Time now, const ProfileFacts &facts) {
  Profile &k = profiles_[find(now, facts.hash, facts.name).index];
  k.calls = facts.calls;
  k.peak = facts.peak;
  double watched = std::clamp(facts.watched, 0.0, kMostSeconds);
  Time quarter(static_cast<i64>(watched / kLeastStretches * 1e6));
  for (size_t i = 0; i < kLeastStretches && quarter > Time{0}; i++)
    k.copies.add(std::min(facts.copied, watched * kMostBytesPerSecond) / kLeastStretches, quarter);
  note_demands();
}

std::vector<ProfileFacts> WorkloadProfiles::facts() const {
  std::vector<ProfileFacts> all;
  for (const Profile &k : profiles_)
    all.push_back({k.hash, k.name, k.calls, k.peak, k.copies.amount(), k.copies.duration()});
  return all;
}

}  // namespace ckpt::manager
