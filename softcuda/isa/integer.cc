// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions"). PTX integers wrap, so the
// arithmetic is unsigned, where C++ defines wrapping.
#include <algorithm>
#include <limits>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;

template <class T>
struct Twice;
template <>
struct Twice<u16> {
  using type = u32;
};
template <>
struct Twice<i16> {
  using type = i32;
};
template <>
struct Twice<u32> {
  using type = u64;
};
template <>
struct Twice<i32> {
  using type = i64;
};
template <>
struct Twice<u64> {
  using type = u128;
};
template <>
struct Twice<i64> {
  using type = i128;
};
template <class T>
using Wide = typename Twice<T>::type;

// C++ would promote u16 to int, and its overflow is undefined.
template <class T>
T times(T a, T b) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(static_cast<u32>(a) * static_cast<u32>(b));
  else
    return static_cast<T>(static_cast<U<T>>(a) * static_cast<U<T>>(b));
}
template <class T>
T high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * b) >> (8 * sizeof(T)));
}
template <class T>
T plus(T a, T b) {
  return static_cast<T>(static_cast<U<T>>(a) + static_cast<U<T>>(b));
}
template <class T>
T minus(T a, T b) {
  return static_cast<T>(static_cast<U<T>>(a) - static_cast<U<T>>(b));
}

template <class T>
struct Add {
  static T run(T a, T b) { return plus(a, b); }
};
template <class T>
struct Sub {
  static T run(T a, T b) { return minus(a, b); }
};
template <class T>
struct MulLo {
  static T run(T a, T b) { return times(a, b); }
};
template <class T>
struct MulHi {
  static T run(T a, T b) { return high(a, b); }
};
template <class T>
struct MulWide {
  static Wide<T> run(T a, T b) { return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b); }
};
template <class T>
struct MadLo {
  static T run(T a, T b, T c) { return plus(times(a, b), c); }
};
template <class T>
struct MadHi {
  static T run(T a, T b, T c) { return plus(high(a, b), c); }
};
template <class T>
struct MadWide {
  static Wide<T> run(T a, T b, Wide<T> c) { return plus<Wide<T>>(MulWide<T>::run(a, b), c); }
};
template <class T>
struct Neg {
  static T run(T a) { return minus<T>(0, a); }
};
template <class T>
struct Abs {
  static T run(T a) { return a < 0 ? minus<T>(0, a) : a; }
};
template <class T>
struct Min {
  static T run(T a, T b) { return std::min(a, b); }
};
template <class T>
struct Max {
  static T run(T a, T b) { return std::max(a, b); }
};
template <class T>
struct Sad {
  static T run(T a, T b, T c) { return plus(c, a < b ? minus(b, a) : minus(a, b)); }
};
// PTX leaves the result of a division by zero undefined; devices return all ones.
template <class T>
struct Div {
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return minus<T>(0, a);
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T run(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};

i32 saturated(i64 v) {
  return static_cast<i32>(
      std::clamp<i64>(v, std::numeric_limits<i32>::min(), std::numeric_limits<i32>::max()));
}
i32 add_sat(i32 a, i32 b) { return saturated(i64{a} + b); }
i32 sub_sat(i32 a, i32 b) { return saturated(i64{a} - b); }

// mul24: the product of the low 24 bits of each; .lo returns its bits 0–31, .hi its bits 16–47.
template <class T>
struct Mul24 {
  static T cut(T a) { return static_cast<T>(static_cast<T>(static_cast<U<T>>(a) << 8) >> 8); }
  static T lo(T a, T b) { return static_cast<T>(static_cast<Wide<T>>(cut(a)) * cut(b)); }
  static T hi(T a, T b) { return static_cast<T>((static_cast<Wide<T>>(cut(a)) * cut(b)) >> 16); }
  static T mad(T a, T b, T c) { return plus(lo(a, b), c); }
};

template <class T, class F>
Pair<T> both(Pair<T> a, Pair<T> b, F f) {
  return {f(a.low, b.low), f(a.high, b.high)};
}
template <class T>
struct Add2 {
  static Pair<T> run(Pair<T> a, Pair<T> b) { return both(a, b, &plus<T>); }
};
template <class T>
struct Min2 {
  static Pair<T> run(Pair<T> a, Pair<T> b) {
    return both(a, b, [](T x, T y) { return std::min(x, y); });
  }
};
template <class T>
struct Max2 {
  static Pair<T> run(Pair<T> a, Pair<T> b) {
    return both(a, b, [](T x, T y) { return std::max(x, y); });
  }
};

template <class A, class B>
i32 dot4(i32 a, i32 b, i32 c) {
  u32 sum = static_cast<u32>(c);
  for (int i = 0; i < 32; i += 8)
    sum += static_cast<u32>(static_cast<i32>(static_cast<A>(a >> i)) * static_cast<B>(b >> i));
  return static_cast<i32>(sum);
}
template <class A, class B, int From>
i32 dot2(i32 a, i32 b, i32 c) {
  u32 sum = static_cast<u32>(c);
  for (int i = 0; i < 2; ++i)
    sum += static_cast<u32>(static_cast<i32>(static_cast<A>(a >> (16 * i))) *
                            static_cast<B>(b >> (From + 8 * i)));
  return static_cast<i32>(sum);
}

bool select_dot(const Instruction &in, Selected &s) {
  bool sa = in.type(0) == Type::S32, sb = in.type(1) == Type::S32;
  Run run = nullptr;
  if (in.opcode == "dp4a")
    run = sa   ? sb ? lift<&dot4<i8, i8>> : lift<&dot4<i8, u8>>
            : sb ? lift<&dot4<u8, i8>>
               : lift<&dot4<u8, u8>>;
  else if (in.has("lo"))
    run = sa   ? sb ? lift<&dot2<i16, i8, 0>> : lift<&dot2<i16, u8, 0>>
            : sb ? lift<&dot2<u16, i8, 0>>
               : lift<&dot2<u16, u8, 0>>;
  else
    run = sa   ? sb ? lift<&dot2<i16, i8, 16>> : lift<&dot2<i16, u8, 16>>
            : sb ? lift<&dot2<u16, i8, 16>>
               : lift<&dot2<u16, u8, 16>>;
  return uniform(s, run, Type::B32);
}

template <template <class> class F>
Run any(Type t) {
  return pick<F, u16, u32, u64, i16, i32, i64>(t);
}

Type widened(Type t) {
  switch (t) {
    case Type::U16: return Type::U32;
    case Type::S16: return Type::S32;
    case Type::U32: return Type::U64;
    default: return Type::S64;
  }
}

bool select_product(const Instruction &in, Selected &s, Type t) {
  bool mad = in.opcode == "mad";
  if (in.has("wide")) {
    uniform(s, mad ? pick<MadWide, u16, u32, i16, i32>(t) : pick<MulWide, u16, u32, i16, i32>(t),
            t);
    s.dst = s.src[2] = widened(t);
    return s.run != nullptr;
  }
  if (in.has("hi")) return uniform(s, mad ? any<MadHi>(t) : any<MulHi>(t), t);
  if (!in.has("lo")) return false;
  return uniform(s, mad ? any<MadLo>(t) : any<MulLo>(t), t);
}

bool select_24(const Instruction &in, Selected &s, Type t) {
  bool sign = t == Type::S32;
  if (in.opcode == "mad24" && in.has("lo"))
    return uniform(s, sign ? lift<&Mul24<i32>::mad> : lift<&Mul24<u32>::mad>, t);
  if (in.opcode == "mad24") return false;
  if (in.has("lo")) return uniform(s, sign ? lift<&Mul24<i32>::lo> : lift<&Mul24<u32>::lo>, t);
  return uniform(s, sign ? lift<&Mul24<i32>::hi> : lift<&Mul24<u32>::hi>, t);
}

bool select_pairs(const Instruction &in, Selected &s, Type t) {
  bool u = t == Type::U16x2;
  if (in.opcode == "add") return uniform(s, u ? lift<&Add2<u16>::run> : lift<&Add2<i16>::run>, t);
  if (in.opcode == "min") return uniform(s, u ? lift<&Min2<u16>::run> : lift<&Min2<i16>::run>, t);
  if (in.opcode == "max") return uniform(s, u ? lift<&Max2<u16>::run> : lift<&Max2<i16>::run>, t);
  return false;
}

}  // namespace

bool select_integer(const Instruction &in, Selected &s) {
  Type t = in.type();
  if (in.opcode == "dp4a" || in.opcode == "dp2a") return select_dot(in, s);
  if (in.has("cc") || in.has("relu") || ptx::is_float(t)) return false;
  if (t == Type::U16x2 || t == Type::S16x2) return select_pairs(in, s, t);
  if (in.has("sat")) {
    if (t != Type::S32) return false;
    if (in.opcode == "add") return uniform(s, lift<&add_sat>, t);
    return in.opcode == "sub" && uniform(s, lift<&sub_sat>, t);
  }
  if (in.opcode == "mul" || in.opcode == "mad") return select_product(in, s, t);
  if (in.opcode == "mul24" || in.opcode == "mad24") return select_24(in, s, t);
  if (in.opcode == "add") return uniform(s, any<Add>(t), t);
  if (in.opcode == "sub") return uniform(s, any<Sub>(t), t);
  if (in.opcode == "div") return uniform(s, any<Div>(t), t);
  if (in.opcode == "rem") return uniform(s, any<Rem>(t), t);
  if (in.opcode == "min") return uniform(s, any<Min>(t), t);
  if (in.opcode == "max") return uniform(s, any<Max>(t), t);
  if (in.opcode == "sad") return uniform(s, any<Sad>(t), t);
  if (in.opcode == "abs") return uniform(s, pick<Abs, i16, i32, i64>(t), t);
  if (in.opcode == "neg") return uniform(s, pick<Neg, i16, i32, i64>(t), t);
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
