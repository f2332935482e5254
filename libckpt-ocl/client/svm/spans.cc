// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/svm/spans.h"

#include <iterator>

namespace ckpt::ocl {

std::optional<size_t> Spans::take(size_t bytes, size_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    auto [begin, length] = *it;
    size_t before = (alignment - begin % alignment) % alignment;
    if (before > length || bytes > length - before) continue;
    size_t at = begin + before, after = length - before - bytes;
    free_.erase(it);
    if (before > 0) free_[begin] = before;
    if (after > 0) free_[at + bytes] = after;
    return at;
  }
  return {};
}

void Spans::give(size_t at, size_t bytes) {
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (auto before = std::prev(next); before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  free_[at] = bytes;
}

}  // namespace ckpt::ocl
