// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floating point by conversion. Arithmetic on 16-bit operands is computed in double and then
// rounded to 16 bits. A double has more than twice the digits of a 16-bit float, so this double
// rounding gives the same result as a single one.
#pragma once

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

template <class T>
struct Layout;
template <>
struct Layout<F16> {
  static constexpr int kMantissa = 10, kMinExponent = -14, kMaxExponent = 15;
  static constexpr u16 kNan = 0x7fff, kInfinity = 0x7c00, kLargest = 0x7bff;
};
template <>
struct Layout<BF16> {
  static constexpr int kMantissa = 7, kMinExponent = -126, kMaxExponent = 127;
  static constexpr u16 kNan = 0x7fff, kInfinity = 0x7f80, kLargest = 0x7f7f;
};

inline double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<u64>(e + 1023) << 52);
}

inline float widen(BF16 v) { return std::bit_cast<float>(static_cast<u32>(v.bits) << 16); }
inline float widen(F16 v) {
  u32 sign = static_cast<u32>(v.bits & 0x8000) << 16, rest = v.bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // The biases of the exponents differ by 112. The product also normalises denormal numbers.
  float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<u32>(magnitude) | sign);
}

// Rounds `scaled`, which is not negative, to an integer. `negative`: the sign of the whole number.
inline u32 round_units(double scaled, u16 mode, bool negative) {
  u32 units = static_cast<u32>(scaled);
  double rest = scaled - units;
  bool up = false;
  switch (mode & 3) {
    case kNearest: up = rest > 0.5 || (rest == 0.5 && (units & 1)); break;
    case kToZero: break;
    case kDown: up = negative && rest > 0; break;
    default: up = !negative && rest > 0; break;
  }
  return units + up;
}

template <class T>
inline T narrow(double v, u16 mode = kNearest) {
  using L = Layout<T>;
  u64 bits = std::bit_cast<u64>(v);
  u16 sign = static_cast<u16>(bits >> 48 & 0x8000);
  double magnitude = std::bit_cast<double>(bits & ~(1ull << 63));
  if (magnitude != magnitude) return {L::kNan};
  if (magnitude == std::bit_cast<double>(0x7ff0000000000000ull))
    return {static_cast<u16>(sign | L::kInfinity)};
  int e = static_cast<int>(std::bit_cast<u64>(magnitude) >> 52) - 1023;
  if (e < L::kMinExponent) e = L::kMinExponent;
  // Above the largest finite value the result depends on the mode alone.
  if (e > L::kMaxExponent) {
    e = L::kMaxExponent;
    magnitude = 0x1.ffffp0 * power_of_two(e);
  }
  u32 units = round_units(magnitude * power_of_two(L::kMantissa - e), mode, sign != 0);
  // The units of a normal number include the hidden bit, which adds one to the exponent's field.
  u32 field = static_cast<u32>(e - L::kMinExponent) << L::kMantissa;
  u32 result = field + units;
  return {static_cast<u16>(sign | (result > L::kInfinity ? L::kInfinity : result))};
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
