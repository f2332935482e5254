// SPDX-License-Identifier: Apache-2.0
//
// cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt").
#include <algorithm>
#include <cmath>
#include <limits>

#include "softcuda/isa/narrow.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

enum class ToInteger { None, Nearest, Zero, Down, Up };

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <ToInteger R, class T>
T rounded(T v) {
  switch (R) {
    case ToInteger::Nearest: return std::nearbyint(v);
    case ToInteger::Zero: return std::trunc(v);
    case ToInteger::Down: return std::floor(v);
    case ToInteger::Up: return std::ceil(v);
    default: return v;
  }
}

// Every conversion to an integer clamps. A NaN is zero, or the top bit where 64 bits take part.
template <class D, class A>
D clamped(A v) {
  using L = std::numeric_limits<D>;
  constexpr bool kTopBit = sizeof(D) == 8 || sizeof(A) == 8;
  // The bounds as floats may be rounded up: then they are one too many.
  constexpr A kEnd = static_cast<A>(L::max() / 2 + 1) * 2;
  if (v != v)
    return kTopBit ? static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1)) : D{0};
  if (v >= kEnd) return L::max();
  if (v < static_cast<A>(L::min())) return L::min();
  return static_cast<D>(v);
}

template <class D, class A, bool Saturate>
D integer(A v) {
  if constexpr (Saturate) {
    using L = std::numeric_limits<D>;
    if (std::cmp_greater(v, L::max())) return L::max();
    if (std::cmp_less(v, L::min())) return L::min();
  }
  return static_cast<D>(v);
}

template <class A>
auto widened(A v) {
  if constexpr (kIsHalf<A>)
    return widen(v);
  else
    return v;
}

// To and from 16-bit floats the rounding is ours, else the mode of the host (under_mode).
template <class D, class A, ToInteger R, u16 M>
D convert(A v) {
  if constexpr (!kIsFloat<D> && !kIsFloat<A>)
    return integer<D, A, (M & kSaturate) != 0>(v);
  else if constexpr (!kIsFloat<D>)
    return clamped<D>(rounded<R>(widened(v)));
  else if constexpr (kIsHalf<D>) {
    auto wide = widened(v);
    if constexpr (kIsFloat<A>) wide = rounded<R>(wide);
    double d = static_cast<double>(wide);
    if constexpr ((M & kSaturate) != 0) d = d > 0 ? std::min(d, 1.0) : 0;
    return narrow<D>(d, M);
  } else if constexpr (kIsFloat<A>)
    return static_cast<D>(rounded<R>(widened(v)));
  else
    return static_cast<D>(v);
}

struct Wanted {
  Type src;
  ToInteger round;
  u16 mode;
};

template <class D, class A, u16 M>
Run by_rounding(ToInteger r) {
  if constexpr (kIsFloat<A>) {
    switch (r) {
      case ToInteger::Nearest: return lift<&convert<D, A, ToInteger::Nearest, M>>;
      case ToInteger::Zero: return lift<&convert<D, A, ToInteger::Zero, M>>;
      case ToInteger::Down: return lift<&convert<D, A, ToInteger::Down, M>>;
      case ToInteger::Up: return lift<&convert<D, A, ToInteger::Up, M>>;
      default: break;
    }
  }
  return lift<&convert<D, A, ToInteger::None, M>>;
}

template <class D, class A>
Run by_mode(const Wanted &w) {
  bool saturate = w.mode & kSaturate;
  if constexpr (kIsHalf<D>) {
    switch (w.mode & 3) {
      case kToZero: return by_rounding<D, A, kToZero>(w.round);
      case kDown: return by_rounding<D, A, kDown>(w.round);
      case kUp: return by_rounding<D, A, kUp>(w.round);
      default: break;
    }
    if (saturate) return by_rounding<D, A, kSaturate>(w.round);
  } else if constexpr (!kIsFloat<D> && !kIsFloat<A>) {
    if (saturate) return by_rounding<D, A, kSaturate>(w.round);
  }
  return by_rounding<D, A, kNearest>(w.round);
}

template <class D, class... As>
Run by_source(const Wanted &w) {
  Run found = nullptr;
  ((stands_for<As>(w.src) ? (void)(found = by_mode<D, As>(w)) : void()), ...);
  return found;
}

template <class... Ds>
Run by_destination(Type t, const Wanted &w) {
  Run found = nullptr;
  ((stands_for<Ds>(t)
        ? (void)(found =
                     by_source<Ds, u8, u16, u32, u64, i8, i16, i32, i64, float, double, F16, BF16>(
                         w))
        : void()),
   ...);
  return found;
}

ToInteger rounding_of(const Instruction &in) {
  return in.has("rni")   ? ToInteger::Nearest
         : in.has("rzi") ? ToInteger::Zero
         : in.has("rmi") ? ToInteger::Down
         : in.has("rpi") ? ToInteger::Up
                         : ToInteger::None;
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the high half.
template <class T, u16 M, bool R>
Pair<T> packed(float a, float b) {
  if (R) a = a > 0 || a != a ? a : 0, b = b > 0 || b != b ? b : 0;
  return {narrow<T>(b, M), narrow<T>(a, M)};
}

template <class T>
Run choose_packed(const Instruction &in) {
  if (in.has("relu"))
    return in.has("rz") ? lift<&packed<T, kToZero, true>> : lift<&packed<T, kNearest, true>>;
  return in.has("rz") ? lift<&packed<T, kToZero, false>> : lift<&packed<T, kNearest, false>>;
}

bool select_packed(const Instruction &in, Selected &s, Type t) {
  if (in.type(1) != Type::F32 || in.has("sat")) return false;
  uniform(s, t == Type::F16x2 ? choose_packed<F16>(in) : choose_packed<BF16>(in), Type::F32);
  s.dst = t;
  return true;
}

}  // namespace

bool select_convert(const Instruction &in, Selected &s) {
  if (in.opcode != "cvt" || in.has("relu")) {
    Type t = in.type();
    return in.opcode == "cvt" && (t == Type::F16x2 || t == Type::BF16x2) && select_packed(in, s, t);
  }
  Type dst = in.type(0), src = in.type(1);
  if (dst == Type::F16x2 || dst == Type::BF16x2) return select_packed(in, s, dst);
  u16 mode = mode_of(in);
  uniform(s,
          by_destination<u8, u16, u32, u64, i8, i16, i32, i64, float, double, F16, BF16>(
              dst, {src, rounding_of(in), mode}),
          src);
  s.dst = dst;
  // Only f32 and f64 results are rounded by the host; a flush also concerns an f32 source.
  bool wide = dst == Type::F32 || dst == Type::F64;
  u16 host = wide ? mode : static_cast<u16>(src == Type::F32 ? mode & kFlush : 0);
  apply_mode(s, host);
  return s.run != nullptr;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
