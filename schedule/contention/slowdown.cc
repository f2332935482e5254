// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/slowdown.h"

#include <algorithm>
#include <vector>

namespace ckpt::schedule {
namespace {

// Crossings of the links for each byte that a copy moves: a core reads it and writes it into a
// pinned buffer, and the GPU reads that.
constexpr double kCopyPerCore = 2, kCopyPerMemory = 3;

// The max-min fair shares of `capacity` for two kinds of demands, `a` and `b`: the part that small
// demands leave is divided among the large ones.
struct Fair {
  double a, b;
};

Fair share_fairly(double a, unsigned users_of_a, double b, unsigned users_of_b, double capacity) {
  if (a * users_of_a + b * users_of_b <= capacity) return {a, b};
  double equal = capacity / (users_of_a + users_of_b);
  if (users_of_a > 0 && a <= equal) return {a, (capacity - a * users_of_a) / users_of_b};
  if (users_of_b > 0 && b <= equal) return {(capacity - b * users_of_b) / users_of_a, b};
  return {equal, equal};
}

bool is_copy(Stage s) { return s == Stage::HostToDevice || s == Stage::DeviceToHost; }

}  // namespace

double stage_slowdown(Stage own, const StageCounts &neighbours, const Bandwidths &node) {
  if (own == Stage::Other) return 1;
  StageCounts all = neighbours;
  if (own == Stage::Memory) all.memory++;
  if (own == Stage::HostToDevice) all.host_to_device++;
  if (own == Stage::DeviceToHost) all.device_to_host++;
  unsigned copies = all.host_to_device + all.device_to_host;

  // Cores to router: rates per task.
  auto [memory, copy] =
      share_fairly(node.core, all.memory, kCopyPerCore * node.copy, copies, node.cpu);
  // Router to memory: all traffic is reduced in proportion.
  double traffic = memory * all.memory + copy * (kCopyPerMemory / kCopyPerCore) * copies;
  double left = std::min(1.0, node.memory / traffic);
  double rate = (is_copy(own) ? copy / kCopyPerCore : memory) * left;
  // Router to GPUs, of which each direction is a link of its own.
  if (is_copy(own)) {
    unsigned same = own == Stage::HostToDevice ? all.host_to_device : all.device_to_host;
    rate = std::min(rate, node.link / same);
  }
  return (is_copy(own) ? node.copy : node.core) / rate;
}

namespace {

// The probability of each count of neighbours in each stage. A neighbour that is never in a stage
// adds nothing to that stage's largest count, so CPU tasks cost far less than GPU tasks.
class Counts {
 public:
  explicit Counts(std::span<const StageShares> neighbours) {
    for (const StageShares &n : neighbours) {
      memory_ += n[Stage::Memory] > 0;
      host_to_device_ += n[Stage::HostToDevice] > 0;
      device_to_host_ += n[Stage::DeviceToHost] > 0;
    }
    of_.resize((memory_ + 1) * (host_to_device_ + 1) * (device_to_host_ + 1));
    at(0, 0, 0) = 1;
    for (const StageShares &n : neighbours) add(n);
  }

  template <class F>
  double expected(F &&value) const {
    double sum = 0;
    for (size_t m = 0; m <= memory_; m++)
      for (size_t h = 0; h <= std::min(host_to_device_, added_ - m); h++)
        for (size_t d = 0; d <= std::min(device_to_host_, added_ - m - h); d++)
          if (double p = of_[index(m, h, d)]; p > 0)
            sum += p * value(StageCounts{static_cast<unsigned>(m), static_cast<unsigned>(h),
                                         static_cast<unsigned>(d)});
    return sum;
  }

 private:
  // In place: the largest counts first, so that each neighbour counts once.
  void add(const StageShares &neighbour) {
    added_++;
    for (size_t m = std::min(memory_, added_) + 1; m-- > 0;)
      for (size_t h = std::min(host_to_device_, added_ - m) + 1; h-- > 0;)
        for (size_t d = std::min(device_to_host_, added_ - m - h) + 1; d-- > 0;) {
          double p = at(m, h, d) * neighbour[Stage::Other];
          if (m > 0) p += at(m - 1, h, d) * neighbour[Stage::Memory];
          if (h > 0) p += at(m, h - 1, d) * neighbour[Stage::HostToDevice];
          if (d > 0) p += at(m, h, d - 1) * neighbour[Stage::DeviceToHost];
          at(m, h, d) = p;
        }
  }

  size_t index(size_t m, size_t h, size_t d) const {
    return (m * (host_to_device_ + 1) + h) * (device_to_host_ + 1) + d;
  }
  double &at(size_t m, size_t h, size_t d) { return of_[index(m, h, d)]; }

  size_t memory_ = 0, host_to_device_ = 0, device_to_host_ = 0;  // the largest counts
  size_t added_ = 0;
  std::vector<double> of_;
};

// The same where no neighbour copies, which is most often so and far cheaper.
class MemoryCounts {
 public:
  explicit MemoryCounts(std::span<const StageShares> neighbours) {
    of_.reserve(neighbours.size() + 1);
    of_.push_back(1);
    for (const StageShares &n : neighbours) add(n[Stage::Memory], n[Stage::Other]);
  }

  template <class F>
  double expected(F &&value) const {
    double sum = 0;
    for (size_t m = 0; m < of_.size(); m++)
      if (of_[m] > 0) sum += of_[m] * value(StageCounts{.memory = static_cast<unsigned>(m)});
    return sum;
  }

 private:
  void add(double memory, double other) {
    if (memory > 0) of_.push_back(0);
    for (size_t m = of_.size() - 1; m > 0; m--) of_[m] = of_[m] * other + of_[m - 1] * memory;
    of_[0] *= other;
  }

  std::vector<double> of_;
};

bool may_copy(const StageShares &s) {
  return s[Stage::HostToDevice] > 0 || s[Stage::DeviceToHost] > 0;
}

}  // namespace

double slowdown(const StageShares &task, std::span<const StageShares> neighbours,
                const Bandwidths &node) {
  auto beside = [&](const StageCounts &c) {
    double sum = 0;
    for (Stage own : {Stage::Memory, Stage::HostToDevice, Stage::DeviceToHost, Stage::Other})
      if (task[own] > 0) sum += task[own] * stage_slowdown(own, c, node);
    return sum;
  };
  return std::ranges::any_of(neighbours, may_copy) ? Counts(neighbours).expected(beside)
                                                   : MemoryCounts(neighbours).expected(beside);
}

}  // namespace ckpt::schedule
