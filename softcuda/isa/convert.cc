// SPDX-License-Identifier: Apache-2.0
//
// cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt").
#include <algorithm>
#include <cmath>
#include <limits>

#include "softcuda/isa/narrow.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// The rounding of a float to an integral value.
enum class ToInteger : u32 { None, Nearest, Zero, Down, Up };

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <class T>
T rounded(T v, ToInteger how) {
  switch (how) {
    case ToInteger::Nearest: return std::nearbyint(v);
    case ToInteger::Zero: return std::trunc(v);
    case ToInteger::Down: return std::floor(v);
    case ToInteger::Up: return std::ceil(v);
    default: return v;
  }
}

// Every conversion of a float to an integer clamps. A NaN becomes zero, or the top bit if either
// type has 64 bits.
template <class D, class A>
D clamped(A v) {
  using L = std::numeric_limits<D>;
  constexpr bool kTopBit = sizeof(D) == 8 || sizeof(A) == 8;
  // The largest integer may not be representable as a float; the next power of two is.
  constexpr A kEnd = static_cast<A>(L::max() / 2 + 1) * 2;  // NOLINT(bugprone-integer-division)
  if (v != v)
    return kTopBit ? static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1)) : D{0};
  if (v >= kEnd) return L::max();
  if (v < static_cast<A>(L::min())) return L::min();
  return static_cast<D>(v);
}

template <class A>
auto widened(A v) {
  if constexpr (kIsHalf<A>)
    return widen(v);
  else
    return v;
}

// Op::imm: the rounding mode of 16-bit results in the lower half (the host rounds wider ones, see
// under_mode), and the rounding to an integral value in the upper half.
u16 mode_of(const Op &o) { return static_cast<u16>(o.imm); }
ToInteger to_integer_of(const Op &o) { return static_cast<ToInteger>(o.imm >> 32); }

// Truncates or clamps a value that does not fit.
template <class D, class A, bool Saturate>
D integer(A v) {
  if constexpr (Saturate) {
    using L = std::numeric_limits<D>;
    if (std::cmp_greater(v, L::max())) return L::max();
    if (std::cmp_less(v, L::min())) return L::min();
  }
  return static_cast<D>(v);
}

template <class D, class A>
D real(A v) {
  return static_cast<D>(widened(v));
}

// Towards zero, by far the most frequent rounding.
template <class D, class A>
D truncated(A v) {
  return clamped<D>(std::trunc(v));
}

template <class D, class A>
void to_integer(Warp &w, const Op &o, Mask m) {
  In<A> a(w, o.a);
  Cell<D> *out = w.row<Cell<D>>(o.dst);
  ToInteger how = to_integer_of(o);
  for_lanes(m, [&](u32 i) { out[i] = to_cell<D>(clamped<D>(rounded(widened(a[i]), how))); });
}

// f32 and f64 to an integral value of the same type.
template <class T>
void round_in_place(Warp &w, const Op &o, Mask m) {
  In<T> a(w, o.a);
  Cell<T> *out = w.row<Cell<T>>(o.dst);
  ToInteger how = to_integer_of(o);
  for_lanes(m, [&](u32 i) { out[i] = to_cell<T>(rounded(a[i], how)); });
}

template <class D, class A>
void to_half(Warp &w, const Op &o, Mask m) {
  In<A> a(w, o.a);
  u32 *out = w.row<u32>(o.dst);
  u16 mode = mode_of(o);
  ToInteger how = to_integer_of(o);
  for_lanes(m, [&](u32 i) {
    double v = rounded(static_cast<double>(widened(a[i])), how);
    if (mode & kSaturate) v = v > 0 ? std::min(v, 1.0) : 0;
    out[i] = to_cell<D>(narrow<D>(v, mode));
  });
}

struct Conversion {
  Type src;
  ToInteger whole;
  u16 mode;
};

template <class D, class A>
Run choose(const Conversion &w) {
  if constexpr (kIsHalf<D>) return &to_half<D, A>;
  if constexpr (!kIsFloat<D> && !kIsFloat<A>)
    return w.mode & kSaturate ? lift<&integer<D, A, true>> : lift<&integer<D, A, false>>;
  if constexpr (!kIsFloat<D> && std::is_floating_point_v<A>)
    if (w.whole == ToInteger::Zero) return lift<&truncated<D, A>>;
  if constexpr (!kIsFloat<D> && kIsFloat<A>) return &to_integer<D, A>;
  if constexpr (std::is_same_v<D, A> && std::is_floating_point_v<D>)
    if (w.whole != ToInteger::None) return &round_in_place<D>;
  if constexpr (std::is_floating_point_v<D>) return lift<&real<D, A>>;
  return nullptr;
}

template <class D>
Run by_source(const Conversion &w) {
  return [&]<class... As>(std::type_identity<As>...) {
    Run found = nullptr;
    ((stands_for<As>(w.src) ? (void)(found = choose<D, As>(w)) : void()), ...);
    return found;
  }(std::type_identity<u8>(), std::type_identity<u16>(), std::type_identity<u32>(),
         std::type_identity<u64>(), std::type_identity<i8>(), std::type_identity<i16>(),
         std::type_identity<i32>(), std::type_identity<i64>(), std::type_identity<float>(),
         std::type_identity<double>(), std::type_identity<F16>(), std::type_identity<BF16>());
}

template <class... Ds>
Run by_destination(Type t, const Conversion &w) {
  Run found = nullptr;
  ((stands_for<Ds>(t) ? (void)(found = by_source<Ds>(w)) : void()), ...);
  return found;
}

ToInteger to_integer_of(const Instruction &in) {
  return in.has("rni")   ? ToInteger::Nearest
         : in.has("rzi") ? ToInteger::Zero
         : in.has("rmi") ? ToInteger::Down
         : in.has("rpi") ? ToInteger::Up
                         : ToInteger::None;
}

// cvt.rn.f16x2.f32 d, a, b: `a` becomes the high half.
template <class T, u16 M, bool R>
Pair<T> packed(float a, float b) {
  if (R) {
    a = a > 0 || a != a ? a : 0;
    b = b > 0 || b != b ? b : 0;
  }
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

// The 8-bit formats (PTX ISA, "Alternate Floating-Point Data Formats"). E4M3 has no infinity.
struct Float8 {
  int mantissa, least_exponent;
  double largest;
  u32 infinity;  // 0: none
};
constexpr Float8 kE4M3{3, -6, 448, 0}, kE5M2{2, -14, 57344, 0x7c};
constexpr u32 kFloat8Nan = 0x7f;

// Saturates to the largest finite value.
template <const Float8 &S>
u32 to_float8(double v) {
  if (v != v) return kFloat8Nan;
  u32 sign = std::signbit(v) ? 0x80 : 0;
  double magnitude = std::min(std::fabs(v), S.largest);
  int e = magnitude == 0 ? S.least_exponent : std::max(std::ilogb(magnitude), S.least_exponent);
  u32 units = round_units(magnitude * power_of_two(S.mantissa - e), kNearest, false);
  return sign | ((static_cast<u32>(e - S.least_exponent) << S.mantissa) + units);
}

template <const Float8 &S>
double from_float8(u32 bits) {
  u32 rest = bits & 0x7f;
  double magnitude = 0;
  if (rest == kFloat8Nan || (S.infinity != 0 && rest > S.infinity))
    magnitude = NAN;
  else if (S.infinity != 0 && rest == S.infinity)
    magnitude = INFINITY;
  else {
    u32 field = rest >> S.mantissa, fraction = rest & ((1u << S.mantissa) - 1);
    u32 hidden = field == 0 ? 0 : 1u << S.mantissa;
    int e = S.least_exponent + (field == 0 ? 0 : static_cast<int>(field) - 1);
    magnitude = (hidden | fraction) * power_of_two(e - S.mantissa);
  }
  return bits & 0x80 ? -magnitude : magnitude;
}

// The first source becomes the high half.
template <const Float8 &S, bool Relu>
u16 pack_float8(float a, float b) {
  if (Relu) {
    a = a < 0 ? 0 : a;
    b = b < 0 ? 0 : b;
  }
  return static_cast<u16>(to_float8<S>(a) << 8 | to_float8<S>(b));
}
template <const Float8 &S, bool Relu>
u16 repack_float8(Pair<F16> v) {
  return pack_float8<S, Relu>(widen(v.high), widen(v.low));
}
template <const Float8 &S, bool Relu>
Pair<F16> unpack_float8(u16 v) {
  double low = from_float8<S>(v & 0xff), high = from_float8<S>(v >> 8);
  if (Relu) {
    low = low < 0 ? 0 : low;
    high = high < 0 ? 0 : high;
  }
  return {narrow<F16>(low), narrow<F16>(high)};
}

template <const Float8 &S, bool Relu>
bool select_float8(const Instruction &in, Selected &s, bool from) {
  if (from) {
    uniform(s, lift<&unpack_float8<S, Relu>>, Type::B16);
    s.dst = Type::F16x2;
    return in.type(0) == Type::F16x2;
  }
  bool pair = in.type(0) == Type::F16x2;
  uniform(s, pair ? lift<&repack_float8<S, Relu>> : lift<&pack_float8<S, Relu>>,
          pair ? Type::F16x2 : Type::F32);
  s.dst = Type::B16;
  return in.has("satfinite") && (pair || in.type(0) == Type::F32);
}

bool select_float8_format(const Instruction &in, Selected &s) {
  bool e4m3 = in.has("e4m3x2");
  bool from = in.modifiers.back() == "e4m3x2" || in.modifiers.back() == "e5m2x2";
  if (in.has("relu"))
    return e4m3 ? select_float8<kE4M3, true>(in, s, from) : select_float8<kE5M2, true>(in, s, from);
  return e4m3 ? select_float8<kE4M3, false>(in, s, from) : select_float8<kE5M2, false>(in, s, from);
}

// f32 with ten bits of fraction; ties away from zero (.rna) or to even (.rn), or truncated (.rz).
template <u32 Half, bool Even>
u32 to_tf32(u32 v) {
  if ((v & 0x7fffffff) >= 0x7f800000) return v;
  u32 odd = Even ? v >> 13 & 1 : 0;
  return (v + (Even ? Half - 1 + odd : Half)) & ~0x1fffu;
}

bool select_tf32(const Instruction &in, Selected &s) {
  Run run = in.has("rna")  ? lift<&to_tf32<0x1000, false>>
            : in.has("rn") ? lift<&to_tf32<0x1000, true>>
                           : lift<&to_tf32<0, false>>;
  uniform(s, run, Type::B32);
  return !in.has("relu") && !in.has("satfinite");
}

}  // namespace

bool select_convert(const Instruction &in, Selected &s) {
  if (in.opcode == "cvt" && (in.has("e4m3x2") || in.has("e5m2x2")))
    return select_float8_format(in, s);
  if (in.opcode == "cvt" && in.has("tf32")) return select_tf32(in, s);
  if (in.opcode != "cvt" || in.has("relu")) {
    Type t = in.type();
    return in.opcode == "cvt" && (t == Type::F16x2 || t == Type::BF16x2) && select_packed(in, s, t);
  }
  Type dst = in.type(0), src = in.type(1);
  if (dst == Type::F16x2 || dst == Type::BF16x2) return select_packed(in, s, dst);
  Conversion wanted{src, to_integer_of(in), CKPT_ISA::mode_of(in)};
  u16 mode = wanted.mode;
  uniform(
      s,
      by_destination<u8, u16, u32, u64, i8, i16, i32, i64, float, double, F16, BF16>(dst, wanted),
      src);
  s.dst = dst;
  s.imm = static_cast<i64>(wanted.whole) << 32 | mode;
  // The host rounds f32 and f64 results. .ftz also flushes an f32 source.
  bool wide = dst == Type::F32 || dst == Type::F64;
  u16 host = wide ? mode : static_cast<u16>(src == Type::F32 ? mode & kFlush : 0);
  apply_mode(s, host);
  return s.run != nullptr;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
