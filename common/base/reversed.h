// SPDX-License-Identifier: Apache-2.0
//
// A vector in reverse order, for undoing steps. (clang 14 cannot compile std::views::reverse.)
#pragma once

#include <vector>

namespace ckpt {

template <class T>
class Reversed {
 public:
  explicit Reversed(std::vector<T> &all) : all_(all) {}
  auto begin() const { return all_.rbegin(); }
  auto end() const { return all_.rend(); }

 private:
  std::vector<T> &all_;
};

// for (T &t : reversed(vector)); the vector outlives the loop.
template <class T>
Reversed<T> reversed(std::vector<T> &all) {
  return Reversed<T>(all);
}

}  // namespace ckpt
