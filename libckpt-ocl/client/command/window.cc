// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/window.h"

#include <algorithm>

namespace ckpt::ocl {
namespace {

// Bounds the memory: a device with more kinds forgets all of them.
constexpr size_t kMostKinds = 4096;
// No command takes less, so that no number of commands counts as nothing.
constexpr double kLeast = 200;

}  // namespace

u64 WorkTimes::estimate(const Work &w) const {
  std::lock_guard lock(mutex_);
  auto ns = static_cast<u64>(known_or_guessed(w));
  return ns > 0 ? ns : kAhead;
}

u64 WorkTimes::known(const Work &w) const {
  std::lock_guard lock(mutex_);
  auto it = times_.find(w.kind);
  return it != times_.end() ? static_cast<u64>(it->second) : 0;
}

double WorkTimes::known_or_guessed(const Work &w) const {
  auto it = times_.find(w.kind);
  return it != times_.end() ? it->second : static_cast<double>(w.guess);
}

void WorkTimes::learn(std::span<const WorkCount> work, u64 ns) {
  std::lock_guard lock(mutex_);
  if (times_.size() >= kMostKinds) times_.clear();
  double expected = 0, commands = 0, unmeasured = 0;
  for (const WorkCount &c : work) {
    double each = known_or_guessed(c.work);
    commands += c.count;
    expected += each * c.count;
    if (each == 0) unmeasured += c.count;
  }
  if (commands == 0) return;
  auto measured = static_cast<double>(ns);
  if (unmeasured == 0) return scale(work, (1 + measured / expected) / 2);
  double rest = measured - expected;
  spread(work, rest > 0 ? rest / unmeasured : measured / commands);
}

// The kinds that were never measured take `ns` each.
void WorkTimes::spread(std::span<const WorkCount> work, double ns) {
  for (const WorkCount &c : work)
    if (known_or_guessed(c.work) == 0) times_[c.work.kind] = std::max(kLeast, ns);
}

void WorkTimes::scale(std::span<const WorkCount> work, double factor) {
  for (const WorkCount &c : work)
    times_[c.work.kind] = std::max(kLeast, known_or_guessed(c.work) * factor);
}

void WorkTimes::forget(const Work &w) {
  std::lock_guard lock(mutex_);
  times_.erase(w.kind);
}

void WorkTimes::forget() {
  std::lock_guard lock(mutex_);
  times_.clear();
}

}  // namespace ckpt::ocl
