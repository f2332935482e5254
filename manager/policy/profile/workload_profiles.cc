// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/workload_profiles.h"

#include <algorithm>
#include <utility>

#include "common/base/fnv.h"

namespace ckpt::manager {

namespace {

constexpr size_t kMaxProfiles = 256;

// The bandwidth of the bus is unknown, so demands are relative to the workload that copies fastest:
// it is taken to need the bus for most of its time. So is one that copies half as fast, since that
// is what two alike do beside each other. Below kMinBytesPerSecond, no bus is busy.
constexpr double kBusy = 0.7, kSlowdown = 2, kMinBytesPerSecond = 1e8;
// A limit on what programs report: no bus is faster.
constexpr double kMaxBytesPerSecond = 1e12;
constexpr double kMaxSeconds = 1e9;

// A workload that leaves the engine idle for more than this, in so many seconds, pauses.
constexpr double kBusyEngine = 0.95;
constexpr Time kLongEnough = std::chrono::seconds(30);

u64 user_of(u64 hash) { return hash >> 32; }

}  // namespace

u64 hash_of_user(u32 user, u64 hash) {
  u64 owner = fnv1a(std::to_string(user)), workload = fnv1a(std::to_string(user), hash);
  return (owner << 32) | ((workload ^ (workload >> 32)) & ~u32{0});
}

WorkloadProfiles::Profile &WorkloadProfiles::least_valuable() {
  std::unordered_map<u64, size_t> of_user;
  for (const Profile &p : profiles_) of_user[user_of(p.hash)]++;
  auto rank = [&](const Profile &p) { return std::pair(~of_user[user_of(p.hash)], p.used); };
  return *std::ranges::min_element(profiles_, {}, rank);
}

WorkloadProfiles::Found WorkloadProfiles::find(Time now, u64 hash, const std::string &name) {
  auto [it, is_new] = index_.try_emplace(hash, static_cast<ProfileIndex>(profiles_.size()));
  if (is_new && profiles_.size() == kMaxProfiles) {
    Profile &replaced = least_valuable();
    it->second = static_cast<ProfileIndex>(&replaced - profiles_.data());
    index_.erase(replaced.hash);
    replaced = {};
  } else if (is_new) {
    profiles_.emplace_back();
  }
  Profile &p = profiles_[it->second];
  if (is_new) {
    p.hash = hash;
    p.name = name;
  }
  p.used = now;
  return {it->second, is_new};
}

void WorkloadProfiles::holds(ProfileIndex i, u64 bytes) {
  if (known(i)) profiles_[i].peak = std::max(profiles_[i].peak, bytes);
}

void WorkloadProfiles::copied(ProfileIndex i, u64 bytes, Time time) {
  if (!known(i) || time <= Time{0}) return;
  double most = seconds(time) * kMaxBytesPerSecond;
  profiles_[i].copies.add(std::min(static_cast<double>(bytes), most), time);
  update_demands();
}

// All of them at once, because the fastest copying workload decides on each of them. Demands are
// read far more often than they change.
void WorkloadProfiles::update_demands() {
  double most = kMinBytesPerSecond;
  for (const Profile &p : profiles_)
    if (p.observed()) most = std::max(most, p.copies.mean());
  for (Profile &p : profiles_) {
    if (!p.observed()) continue;
    double bus = kBusy * std::min(1.0, kSlowdown * p.copies.mean() / most);
    p.demand = {.kernels = 1 - bus, .bus = bus, .known = true, .pauses = p.pauses()};
  }
}

void WorkloadProfiles::ended(ProfileIndex i, u64 calls, u64 peak) {
  if (!known(i)) return;
  Profile &p = profiles_[i];
  if (calls > 0) p.calls = p.calls == 0 ? calls : p.calls / 2 + calls / 2;
  if (peak > 0) p.peak = peak;
  changes_++;
}

bool WorkloadProfiles::Profile::pauses() const {
  return observed_for >= kLongEnough && occupied > Time{0} &&
         seconds(occupied) < kBusyEngine * seconds(observed_for);
}

void WorkloadProfiles::sampled(ProfileIndex i) {
  if (known(i)) profiles_[i].sampled = true;
}

void WorkloadProfiles::worked(ProfileIndex i, Time kernels) {
  if (!known(i) || kernels <= Time{0}) return;
  Profile &p = profiles_[i];
  p.work = p.work == Time{0} ? kernels : (p.work + kernels) / 2;
}

void WorkloadProfiles::occupied(ProfileIndex i, Time kernels, Time time) {
  if (!known(i)) return;
  profiles_[i].occupied += kernels;
  profiles_[i].observed_for += time;
  profiles_[i].demand.pauses = profiles_[i].pauses();
}

void WorkloadProfiles::learn(Time now, const ProfileFacts &facts) {
  Profile &p = profiles_[find(now, facts.hash, facts.name).index];
  p.calls = facts.calls;
  p.peak = facts.peak;
  double observed = std::clamp(facts.observed, 0.0, kMaxSeconds);
  Time quarter(static_cast<i64>(observed / kMinIntervals * 1e6));
  for (size_t i = 0; i < kMinIntervals && quarter > Time{0}; i++)
    p.copies.add(std::min(facts.copied, observed * kMaxBytesPerSecond) / kMinIntervals, quarter);
  update_demands();
}

std::vector<ProfileFacts> WorkloadProfiles::facts() const {
  std::vector<ProfileFacts> all;
  for (const Profile &p : profiles_)
    all.push_back({p.hash, p.name, p.calls, p.peak, p.copies.amount(), p.copies.duration()});
  return all;
}

}  // namespace ckpt::manager
