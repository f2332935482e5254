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

}  // namespace

void EnergyShares::read(Time now, Meter &meter, const std::list<Peer> &peers,
                        const Policy &policy) {
  if (read_at_ && now - *read_at_ < kInterval) return;
  bool interval = read_at_ && now - *read_at_ <= kLongest;
  counters_.resize(meter.gpus().size());
  for (size_t g = 0; g < counters_.size(); g++)
    read_gpu(counters_[g], g, meter, peers, policy, interval);
  read_at_ = now;
}

void EnergyShares::read_gpu(Counter &counter, size_t gpu, Meter &meter,
                            const std::list<Peer> &peers, const Policy &policy, bool interval) {
  std::optional<Power> power = meter.power(gpu);
  std::optional<double> before =
      std::exchange(counter.joules, power ? power->joules : std::nullopt);
  std::vector<KernelShare> shares = meter.kernel_shares(gpu);
  double all = 0;
  for (const KernelShare &s : shares) all += s.share;
  if (!interval || !before || !counter.joules || all <= 0) return;
  double joules = std::max(0.0, *counter.joules - *before);
  for (const KernelShare &s : shares) {
    ProgramId program = program_of(s.pid, peers, policy);
    if (program == 0) continue;
    joules_[program] += joules * s.share / all;
    counter.of_programs += joules * s.share / all;
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
