// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/frames.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace ckpt::softcuda::vm {

void AlignedFree::operator()(std::byte *p) const { std::free(p); }

AlignedBytes aligned_bytes(size_t n) {
  void *p = std::aligned_alloc(kCacheLine, (n + kCacheLine) / kCacheLine * kCacheLine);
  if (p == nullptr) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte *>(p));
}

Frame *FramePool::take(const Code &code) {
  if (code.index >= free_.size()) free_.resize(code.index + 1);
  std::vector<Frame *> &free = free_[code.index];
  if (!free.empty()) {
    Frame *f = free.back();
    free.pop_back();
    return f;
  }
  Frame &f = frames_.emplace_back();
  f.code = &code;
  rows_.push_back(aligned_bytes(code.frame_bytes));
  f.rows = rows_.back().get();
  std::memset(f.rows, 0, code.frame_bytes);
  for (const Constant &c : code.constants)
    for (u32 i = 0; i < kLanes; ++i) std::memcpy(f.rows + c.row + i * c.bytes, &c.value, c.bytes);
  return &f;
}

void FramePool::release(Frame *f) { free_[f->code->index].push_back(f); }

}  // namespace ckpt::softcuda::vm
