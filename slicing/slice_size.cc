// SPDX-License-Identifier: Apache-2.0
//
// The first slice is a small part of the grid, so that a kernel of unknown length does not hold the
// device for long. From then on the size is multiplied by what is missing to the target. This also
// works if time is not proportional to blocks: on a device that runs 400 blocks at once, 100 and
// 400 blocks take equally long, and the factor increases the slice until it fills the device.
//
// Close to the target, a single slow slice (the machine was busy elsewhere) must not change the
// size: only what two slices in a row ask for is done, by the smaller of both.
#include "slicing/slice_size.h"

#include <algorithm>
#include <cmath>

namespace ckpt::slicing {
namespace {

constexpr u64 kFirstParts = 64;     // the first slice is this part of the grid
constexpr double kMostFactor = 16;  // of one step of the search
constexpr double kAim = 0.95;       // of the target: a slice should rather be too short
constexpr double kTolerance = 0.15;
constexpr double kMostBlocks = 1e18;

bool is_near(double factor) { return std::abs(std::log(factor)) < kTolerance; }

// What both factors ask for: the one closer to 1, or 1 if they disagree.
double common_part(double a, double b) {
  if ((a > 1) != (b > 1)) return 1;
  return a > 1 ? std::min(a, b) : std::max(a, b);
}

}  // namespace

u64 SliceSize::next(u64 grid) const {
  u64 wanted = blocks_ != 0 ? blocks_ : std::max<u64>(1, grid / kFirstParts);
  return std::min(wanted, grid);
}

void SliceSize::took(u64 blocks, double ns, double target_ns) {
  if (blocks == 0 || !(ns > 0) || !(target_ns > 0)) return;
  // The end of a row or of the grid is no slice to learn from.
  if (blocks_ != 0 && blocks < blocks_ / 2) return;
  ns_per_block_ = ns / static_cast<double>(blocks);
  double factor = std::clamp(kAim * target_ns / ns, 1 / kMostFactor, kMostFactor);
  double change = settled_ ? common_part(factor, last_factor_) : factor;
  last_factor_ = factor;
  settled_ |= is_near(factor);
  double wanted = std::clamp(std::round(static_cast<double>(blocks) * change), 1.0, kMostBlocks);
  blocks_ = static_cast<u64>(wanted);
}

}  // namespace ckpt::slicing
