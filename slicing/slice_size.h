// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel run in a given time, found while the kernel runs (CM-2 of
// docs/PAPERS.md finds it by hand). It only keeps state, and knows no clock and no kernel.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::slicing {

class SliceSize {
 public:
  // Blocks of the next slice of a grid of `grid` blocks.
  u64 next(u64 grid) const;
  // A slice of `blocks` blocks took `ns`; a slice should take `target_ns`.
  void took(u64 blocks, double ns, double target_ns);
  // The time that `blocks` blocks are expected to take; 0: not known yet.
  double expected_ns(u64 blocks) const { return ns_per_block_ * static_cast<double>(blocks); }

 private:
  u64 blocks_ = 0;          // 0: nothing was measured
  bool settled_ = false;    // the last slice was within the tolerance
  double last_factor_ = 1;  // by which the one before should have been larger
  double ns_per_block_ = 0;
};

}  // namespace ckpt::slicing
