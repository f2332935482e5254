// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/rate.h"

#include <algorithm>

namespace ckpt::manager {

namespace {

constexpr size_t kMostPieces = 63;

}  // namespace

void Rate::add(double amount, Time time) {
  Piece piece{static_cast<float>(amount), static_cast<float>(seconds(time))};
  if (pieces_.size() < kMostPieces)
    pieces_.push_back(piece);
  else
    pieces_[next_++ % kMostPieces] = piece;
  amount_ = seconds_ = 0;
  for (const Piece &p : pieces_) amount_ += p.amount, seconds_ += p.seconds;
  std::vector<Piece> sorted = pieces_;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle, {}, &Piece::rate);
  median_ = middle->rate();
}

}  // namespace ckpt::manager
