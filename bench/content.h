// SPDX-License-Identifier: Apache-2.0
//
// The data that all benchmarks store, so that their figures can be compared. bench/cuda/hold.cu
// makes the same on a device.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace ckpt::bench {

// An endless sequence of floats: "zeros"; "random" bits; or "smooth", a field with noise in its
// lower bits like the state of a simulation, which zstd -1 compresses to an eighth.
class Content {
 public:
  explicit Content(std::string kind) : kind_(std::move(kind)) {}

  // The next `count` floats.
  void fill(float *to, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
      std::uint32_t bits = kind_ == "zeros" ? 0 : kind_ == "smooth" ? smooth() : random();
      std::memcpy(to + i, &bits, sizeof bits);
    }
  }

 private:
  std::uint32_t random() { return static_cast<std::uint32_t>(rng_()); }

  // Eight neighbours are equal except for the noise of the first.
  std::uint32_t smooth() {
    std::size_t i = at_++;
    if (i % 8 != 0) return value_;
    auto row = static_cast<float>(i >> 12), column = static_cast<float>((i & 4095) >> 3);
    float field = 300.0f + 40.0f * std::sin(row * 1e-3f + column * 1e-2f);
    std::memcpy(&value_, &field, sizeof value_);
    value_ &= ~std::uint32_t{0xfff};
    return value_ | (random() & 0xff0u);
  }

  std::string kind_;
  std::mt19937 rng_{2};
  std::size_t at_ = 0;
  std::uint32_t value_ = 0;
};

}  // namespace ckpt::bench
