// SPDX-License-Identifier: Apache-2.0
//
// The arguments and results of functions that the software device itself provides.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

template <class F>
void each_lane(Mask m, F f) {
  for (; m != 0; m &= m - 1) f(static_cast<u32>(std::countr_zero(m)));
}

// The arguments and the result of a call by one lane.
class Arguments {
 public:
  Arguments(Warp &w, u32 lane) : w_(w), lane_(lane) {}
  template <class T>
  T get(const std::vector<Slot> &slots, size_t n) const {
    T v{};
    if (n < slots.size()) std::memcpy(&v, at(slots[n]), std::min<size_t>(sizeof v, slots[n].bytes));
    return v;
  }
  template <class T>
  void set(const std::vector<Slot> &slots, T v) const {
    if (!slots.empty()) std::memcpy(at(slots[0]), &v, std::min<size_t>(sizeof v, slots[0].bytes));
  }

 private:
  std::byte *at(const Slot &s) const {
    return w_.local + lane_ * w_.local_stride + w_.frame->local_base + s.offset;
  }
  Warp &w_;
  u32 lane_;
};

}  // namespace ckpt::softcuda::vm
