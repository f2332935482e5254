// SPDX-License-Identifier: Apache-2.0
//
// The data of matrixMul: many small products C += A·B of 16×32 and 32×16 tiles. Elements are small
// whole numbers, so that sums are exact in any order.
#pragma once

#include "mobile.h"

namespace mobile {

constexpr size_t kTile = 16, kDepth = 32;
constexpr size_t kInput = kTile * kDepth, kOutput = kTile * kTile;

inline std::vector<float> small_numbers(size_t count, uint32_t seed) {
  std::vector<float> v(count);
  for (size_t i = 0; i < count; ++i) v[i] = static_cast<float>(value(i, seed) % 4);
  return v;
}

// Whether `c` is the product of `a` and `b`, added `passes` times.
inline bool is_product(const float *a, const float *b, const float *c, size_t passes) {
  for (size_t y = 0; y < kTile; ++y)
    for (size_t x = 0; x < kTile; ++x) {
      float sum = 0;
      for (size_t k = 0; passes > 0 && k < kDepth; ++k) sum += a[y * kDepth + k] * b[k * kTile + x];
      if (c[y * kTile + x] != sum * static_cast<float>(passes)) return false;
    }
  return true;
}

}  // namespace mobile
