// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel run in a given time, found while the kernel runs (CM-2 of
// docs/PAPERS.md finds it by hand). It only keeps state, and knows no clock and no kernel.
#pragma once

#include <array>

#include "common/base/bytes.h"

namespace ckpt::slicing {

class SliceSize {
 public:
  // Blocks of the next slice of a grid of `grid` blocks.
  u64 next(u64 grid) const;
  // A slice of `blocks` blocks took `ns`, with what it waited for the owner's kernels; a slice
  // should take `target_ns`.
  void took(u64 blocks, double ns, double target_ns);
  // The time that `blocks` blocks are expected to take; 0: not known yet.
  double expected_ns(u64 blocks) const;

 private:
  double change(double factor);

  u64 blocks_ = 0;        // 0: nothing was measured
  bool settled_ = false;  // a slice was within the tolerance
  // What the last slices in a row all ask for, once settled.
  int in_a_row_ = 0;
  double common_ = 1;
  std::array<double, 4> ns_per_block_{};  // of the last slices
  size_t oldest_ = 0;
};

}  // namespace ckpt::slicing
