// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace ckpt::ocl {

// Which parts of a block are free.
class Spans {
 public:
  explicit Spans(size_t bytes) : bytes_(bytes), free_{{0, bytes}} {}

  // Takes `bytes` bytes at a multiple of `alignment`, at the lowest place that has room.
  std::optional<size_t> take(size_t bytes, size_t alignment);
  // Gives back what take() has returned.
  void give(size_t at, size_t bytes);
  bool all_free() const { return free_.size() == 1 && free_.begin()->second == bytes_; }

 private:
  size_t bytes_;
  std::map<size_t, size_t> free_;  // begin and length; neighbours are always joined
};

}  // namespace ckpt::ocl
