// SPDX-License-Identifier: Apache-2.0
//
// The first slice is a small part of the grid, so that a kernel of unknown length does not hold the
// device for long. From then on the size is multiplied by what is missing to the target. This also
// works if time is not proportional to blocks: on a device that runs 400 blocks at once, 100 and
// 400 blocks take equally long, and the factor increases the slice until it fills the device.
//
// Close to the target, a slow slice must not change the size: it waited for a kernel of the owner,
// or the machine was busy elsewhere. The size shrinks only if kSlower slices in a row ask for that,
// and grows if kFaster do, as a slice cannot be too fast by chance. What is done is the least that
// they ask for. With two in both directions, slices became half as long as they should be where the
// owner's kernels used 60 % of the device: more than half of the slices waited.
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
constexpr int kSlower = 4, kFaster = 2;

bool is_near(double factor) { return std::abs(std::log(factor)) < kTolerance; }

}  // namespace

u64 SliceSize::next(u64 grid) const {
  u64 wanted = blocks_ != 0 ? blocks_ : std::max<u64>(1, grid / kFirstParts);
  return std::min(wanted, grid);
}

void SliceSize::took(u64 blocks, double ns, double target_ns) {
  if (blocks == 0 || !(ns > 0) || !(target_ns > 0)) return;
  // The end of a row or of the grid is no slice to learn from.
  if (blocks_ != 0 && blocks < blocks_ / 2) return;
  ns_per_block_[oldest_++ % ns_per_block_.size()] = ns / static_cast<double>(blocks);
  double factor = std::clamp(kAim * target_ns / ns, 1 / kMostFactor, kMostFactor);
  if (settled_) factor = change(factor);
  settled_ |= is_near(factor);
  double wanted = std::clamp(std::round(static_cast<double>(blocks) * factor), 1.0, kMostBlocks);
  blocks_ = static_cast<u64>(wanted);
}

// The factor by which the settled size changes, after a slice that asks for `factor`.
double SliceSize::change(double factor) {
  bool grows = factor > 1;
  if (in_a_row_ > 0 && grows != (common_ > 1)) in_a_row_ = 0;
  common_ = in_a_row_ == 0 ? factor : grows ? std::min(common_, factor) : std::max(common_, factor);
  if (++in_a_row_ < (grows ? kFaster : kSlower)) return 1;
  in_a_row_ = 0;
  return common_;
}

double SliceSize::expected_ns(u64 blocks) const {
  double least = 0;
  for (double ns : ns_per_block_)
    if (ns > 0) least = least > 0 ? std::min(least, ns) : ns;
  return least * static_cast<double>(blocks);
}

}  // namespace ckpt::slicing
