// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/energy.h"

#include <algorithm>
#include <utility>

namespace ckpt::manager {
namespace {

// After a longer pause, without programs, NVML no longer says which processes ran kernels.
constexpr Time kLongest = 10 * EnergyShares::kInterval;

// 0: not a program's.
ProgramId program_of(pid_t pid, const std::list<Peer> &peers, const Policy &policy) {
  auto peer = std::ranges::find_if(
      peers, [&](const Peer &p) { return p.has(pid) && policy.find(p.id) != nullptr; });
  return peer == peers.end() ? 0 : peer->id;
}

// What a driver reports of several periods is averaged.
std::map<i32, double> by_process(const std::vector<KernelShare> &shares) {
  std::map<i32, double> sums, periods;
  for (const KernelShare &s : shares) {
    sums[s.pid] += s.share;
    periods[s.pid]++;
  }
  for (auto &[pid, sum] : sums) sum /= periods[pid];
  return sums;
}

Time part_of(Time span, double share) {
  return Time(static_cast<i64>(static_cast<double>(span.count()) * std::clamp(share, 0.0, 1.0)));
}

}  // namespace

void EnergyShares::read(Time now, Meter &meter, const std::list<Peer> &peers, Policy &policy) {
  if (read_at_ && now - *read_at_ < kInterval) return;
  Time span = read_at_ && now - *read_at_ <= kLongest ? now - *read_at_ : Time{0};
  counters_.resize(meter.gpus().size());
  std::vector<KernelTime> kernels;
  for (size_t g = 0; g < counters_.size(); g++) {
    std::optional<Power> power = meter.power(g);
    std::optional<double> joules = power ? power->joules : std::nullopt;
    std::optional<double> before = std::exchange(counters_[g].joules, joules);
    Shares shares = shares_of(by_process(meter.kernel_shares(g)), peers, policy);
    if (span == Time{0}) continue;
    for (auto [p, share] : shares.of) kernels.emplace_back(p, part_of(span, share));
    if (before && joules) divide(counters_[g], std::max(0.0, *joules - *before), shares);
  }
  policy.computed(now, kernels);
  read_at_ = now;
}

EnergyShares::Shares EnergyShares::shares_of(const std::map<i32, double> &of_processes,
                                             const std::list<Peer> &peers, const Policy &policy) {
  Shares shares;
  for (auto [pid, share] : of_processes) {
    shares.all += share;
    if (ProgramId p = program_of(pid, peers, policy)) shares.of[p] += share;
  }
  return shares;
}

void EnergyShares::divide(Counter &counter, double joules, const Shares &shares) {
  if (shares.all <= 0) return;
  for (auto [p, share] : shares.of) {
    joules_[p] += joules * share / shares.all;
    counter.of_programs += joules * share / shares.all;
  }
}

bool EnergyShares::any_counter() const {
  return std::ranges::any_of(counters_, [](const Counter &c) { return c.joules.has_value(); });
}

int EnergyShares::timeout(Time now, bool programs) const {
  if (!programs || !any_counter() || !read_at_) return -1;
  Time left = std::max(Time(0), *read_at_ + kInterval - now);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

std::optional<double> EnergyShares::of(ProgramId program) const {
  if (!any_counter()) return {};
  auto at = joules_.find(program);
  return at == joules_.end() ? 0 : at->second;
}

std::optional<double> EnergyShares::of_programs(size_t gpu) const {
  if (gpu >= counters_.size() || !counters_[gpu].joules) return {};
  return counters_[gpu].of_programs;
}

}  // namespace ckpt::manager
