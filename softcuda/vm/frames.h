// SPDX-License-Identifier: Apache-2.0
//
// Frames, kept for reuse. A new frame needs an allocation and its constants written; a kernel that
// calls functions in a loop would otherwise spend its time on that.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

inline constexpr size_t kCacheLine = 64;  // bytes

struct AlignedFree {
  void operator()(std::byte *p) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;
// At least `n` bytes that begin at a cache line. Throws std::bad_alloc.
AlignedBytes aligned_bytes(size_t n);

class FramePool {
 public:
  // A frame for `code` with its constants in place; the other rows hold old values. Valid until it
  // is released.
  Frame *take(const Code &code);
  void release(Frame *f);

 private:
  std::deque<Frame> frames_;
  std::vector<AlignedBytes> rows_;
  std::vector<std::vector<Frame *>> free_;  // by Code::index
};

}  // namespace ckpt::softcuda::vm
