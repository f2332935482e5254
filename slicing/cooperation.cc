// SPDX-License-Identifier: Apache-2.0
//
// Measured on a shared device: with a light load the median of the empty kernel's time hardly moves
// (0.19 to 0.22 ms), its 90th percentile does (0.56 to 4.06 ms). So a percentile over a window is
// compared, and not a single time. A false "high" costs the guest a pause, a false "low" costs the
// owner a frame: hence R lows in a row, and one high resets the count.
#include "slicing/cooperation.h"

#include <algorithm>
#include <cmath>

namespace ckpt::slicing {

void Load::tested(double ns) {
  if (!(ns > 0)) return;
  idle_ns_ = idle_ns_ == 0 ? ns : std::min(idle_ns_, ns);
  if (window_.size() < std::max<u32>(settings_.window, 1))
    window_.push_back(ns);
  else
    window_[next_++ % window_.size()] = ns;
  lows_ = percentile() < idle_ns_ * (1 + settings_.margin) ? lows_ + 1 : 0;
}

double Load::percentile() const {
  std::vector<double> sorted = window_;
  auto rank =
      static_cast<size_t>(std::ceil(settings_.percentile * static_cast<double>(sorted.size())));
  size_t index = std::clamp<size_t>(rank, 1, sorted.size()) - 1;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<long>(index));
  return sorted[index];
}

double Cooperation::slice_ns() const {
  double share = load_.low() ? settings_.continuous_share : 1 - settings_.frame_share;
  return settings_.period_ns() * share;
}

bool Cooperation::used(double ns) {
  used_ns_ += ns;
  return used_ns_ >= slice_ns() / 2;  // another slice would not fit
}

double Cooperation::tested(double ns) {
  used_ns_ = 0;
  load_.tested(ns);
  return load_.low() ? 0 : settings_.period_ns();
}

}  // namespace ckpt::slicing
