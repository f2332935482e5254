// SPDX-License-Identifier: Apache-2.0
//
// Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions"); logic on predicates.
#include <algorithm>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

template <class T>
struct And {
  static T run(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T run(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T run(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T run(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T run(T a) { return a == 0; }
};
template <class T>
struct Copy {
  static T run(T a) { return a; }
};
template <class T>
struct Select {
  static T run(T a, T b, bool p) { return p ? a : b; }
};

// A shift by at least the width yields zero, or the sign.
template <class T>
struct Shl {
  static T run(T a, u32 n) { return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << n); }
};
template <class T>
struct Shr {
  static T run(T a, u32 n) {
    constexpr u32 kLast = 8 * sizeof(T) - 1;
    if (std::is_signed_v<T>) return static_cast<T>(a >> std::min(n, kLast));
    return n > kLast ? T{0} : static_cast<T>(a >> n);
  }
};

// A predicate is one word for the whole warp.
template <class F>
void logic(Warp &w, const Op &o, Mask m) {
  set_bits(w, o.dst, m, F()(w.bits(o.a), w.bits(o.b)));
}
struct BitAnd {
  u32 operator()(u32 a, u32 b) const { return a & b; }
};
struct BitOr {
  u32 operator()(u32 a, u32 b) const { return a | b; }
};
struct BitXor {
  u32 operator()(u32 a, u32 b) const { return a ^ b; }
};
void logic_not(Warp &w, const Op &o, Mask m) { set_bits(w, o.dst, m, ~w.bits(o.a)); }
void logic_copy(Warp &w, const Op &o, Mask m) { set_bits(w, o.dst, m, w.bits(o.a)); }

// lop3: a bit of the result is the entry (a, b, c) of the table in Op::imm.
void lop3(Warp &w, const Op &o, Mask m) {
  In<u32> a(w, o.a), b(w, o.b), c(w, o.c);
  u32 *out = w.row<u32>(o.dst);
  u32 keep[8];
  for (u32 k = 0; k < 8; ++k) keep[k] = (o.imm >> k & 1) ? ~0u : 0;
  for_lanes(m, [&](u32 i) {
    u32 x = a[i], y = b[i], z = c[i];
    u32 r = 0;
    for (u32 k = 0; k < 8; ++k)
      r |= keep[k] & ((k & 4) ? x : ~x) & ((k & 2) ? y : ~y) & ((k & 1) ? z : ~z);
    out[i] = r;
  });
}

u32 funnel_left_wrap(u32 lo, u32 hi, u32 n) {
  return static_cast<u32>((u64{hi} << 32 | lo) << (n & 31) >> 32);
}
u32 funnel_right_wrap(u32 lo, u32 hi, u32 n) {
  return static_cast<u32>((u64{hi} << 32 | lo) >> (n & 31));
}
u32 funnel_left_clamp(u32 lo, u32 hi, u32 n) {
  return static_cast<u32>((u64{hi} << 32 | lo) << std::min(n, 32u) >> 32);
}
u32 funnel_right_clamp(u32 lo, u32 hi, u32 n) {
  return static_cast<u32>((u64{hi} << 32 | lo) >> std::min(n, 32u));
}

// Bit 3 of a selector replicates the sign of the byte.
u32 permuted(u64 bytes, u32 selector) {
  u32 byte = static_cast<u8>(bytes >> (8 * (selector & 7)));
  return (selector & 8) ? ((byte & 0x80) ? 0xff : 0) : byte;
}
u32 prmt(u32 a, u32 b, u32 c) {
  u64 bytes = u64{b} << 32 | a;
  u32 r = 0;
  for (u32 i = 0; i < 4; ++i) r |= permuted(bytes, c >> (4 * i) & 15) << (8 * i);
  return r;
}
// The modes of prmt derive the selectors from the low two bits of c.
template <u32 (*Row)(u32)>
u32 prmt_mode(u32 a, u32 b, u32 c) {
  return prmt(a, b, Row(c & 3));
}
u32 f4e(u32 n) { return 0x3210 + 0x1111 * n; }
u32 b4e(u32 n) {
  constexpr u32 t[] = {0x5670, 0x6701, 0x7012, 0x0123};
  return t[n];
}
u32 rc8(u32 n) { return 0x1111 * n; }
u32 ecl(u32 n) {
  constexpr u32 t[] = {0x3210, 0x3211, 0x3222, 0x3333};
  return t[n];
}
u32 ecr(u32 n) {
  constexpr u32 t[] = {0x0000, 0x1110, 0x2210, 0x3210};
  return t[n];
}
u32 rc16(u32 n) { return (n & 1) ? 0x3232 : 0x1010; }

template <class T>
u32 popc(T a) {
  return static_cast<u32>(std::popcount(a));
}
template <class T>
u32 clz(T a) {
  return static_cast<u32>(std::countl_zero(a));
}
template <class T>
T brev(T a) {
  T r = 0;
  for (u32 i = 0; i < 8 * sizeof(T); ++i) r |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return r;
}

// The highest bit that differs from the sign, or ~0.
template <class T, bool Shift>
u32 bfind(T a) {
  using V = std::make_unsigned_t<T>;
  V v = static_cast<V>(a);
  if (std::is_signed_v<T> && a < 0) v = static_cast<V>(~v);
  if (v == 0) return ~0u;
  u32 zeros = static_cast<u32>(std::countl_zero(v));
  return Shift ? zeros : 8 * sizeof(T) - 1 - zeros;
}

template <class T>
struct Extract {
  static T run(T a, u32 pos, u32 len) {
    using V = std::make_unsigned_t<T>;
    constexpr u32 kBits = 8 * sizeof(T);
    pos &= 255;
    len &= 255;
    if (len == 0) return 0;
    u32 top = std::min(pos + len - 1, kBits - 1);
    bool sign = std::is_signed_v<T> && (static_cast<V>(a) >> top & 1);
    V bits = pos >= kBits ? V{0} : static_cast<V>(static_cast<V>(a) >> pos);
    u32 kept = pos >= kBits ? 0 : std::min(len, kBits - pos);
    V mask = kept >= kBits ? ~V{0} : static_cast<V>((V{1} << kept) - 1);
    return static_cast<T>((bits & mask) | (sign ? static_cast<V>(~mask) : V{0}));
  }
};

template <class T>
struct Insert {
  static T run(T a, T b, u32 pos, u32 len) {
    constexpr u32 kBits = 8 * sizeof(T);
    pos &= 255;
    len &= 255;
    if (len == 0 || pos >= kBits) return b;
    T mask = len >= kBits ? ~T{0} : static_cast<T>((T{1} << len) - 1);
    mask = static_cast<T>(mask << pos);
    return static_cast<T>((b & ~mask) | (static_cast<T>(a << pos) & mask));
  }
};

// fns: the position of the n-th set bit from `base` on, upwards or downwards (n < 0); ~0: none.
u32 fns(u32 mask, u32 base, i32 n) {
  if (n == 0) return mask >> (base & 31) & 1 ? base : ~0u;
  i32 step = n > 0 ? 1 : -1;
  for (i32 pos = static_cast<i32>(base), left = n * step; pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && --left == 0) return static_cast<u32>(pos);
  return ~0u;
}

u32 field_mask(u32 pos, u32 width, bool wrap) {
  if (wrap) {
    pos &= 31;
    width &= 31;
  }
  if (pos >= 32 || width == 0) return 0;
  return (width >= 32 ? ~0u : (1u << width) - 1) << pos;
}
u32 bmsk_clamp(u32 a, u32 b) { return field_mask(a, b, false); }
u32 bmsk_wrap(u32 a, u32 b) { return field_mask(a, b, true); }

template <template <class> class F>
Run any(Type t) {
  return pick<F, u16, u32, u64>(t);
}

bool select_shift(const Instruction &in, Selected &s, Type t) {
  Run run = in.opcode == "shl" ? any<Shl>(bits_of(t)) : pick<Shr, u16, u32, u64, i16, i32, i64>(t);
  uniform(s, run, t);
  s.src[1] = Type::U32;
  return run != nullptr;
}

bool select_prmt(const Instruction &in, Selected &s) {
  Run run = in.has("f4e")    ? lift<&prmt_mode<&f4e>>
            : in.has("b4e")  ? lift<&prmt_mode<&b4e>>
            : in.has("rc8")  ? lift<&prmt_mode<&rc8>>
            : in.has("ecl")  ? lift<&prmt_mode<&ecl>>
            : in.has("ecr")  ? lift<&prmt_mode<&ecr>>
            : in.has("rc16") ? lift<&prmt_mode<&rc16>>
                             : lift<&prmt>;
  return uniform(s, run, Type::B32);
}

bool select_funnel(const Instruction &in, Selected &s) {
  bool left = in.has("l"), wrap = in.has("wrap");
  return uniform(s,
                 left   ? wrap ? lift<&funnel_left_wrap> : lift<&funnel_left_clamp>
                   : wrap ? lift<&funnel_right_wrap>
                        : lift<&funnel_right_clamp>,
                 Type::B32);
}

bool select_count(const Instruction &in, Selected &s, Type t) {
  bool wide = ptx::size_of(t) == 8, shift = in.has("shiftamt");
  Run run = nullptr;
  if (in.opcode == "popc") run = wide ? lift<&popc<u64>> : lift<&popc<u32>>;
  if (in.opcode == "clz") run = wide ? lift<&clz<u64>> : lift<&clz<u32>>;
  if (in.opcode == "bfind") {
    bool sign = ptx::is_signed(t);
    if (wide)
      run = sign    ? shift ? lift<&bfind<i64, true>> : lift<&bfind<i64, false>>
               : shift ? lift<&bfind<u64, true>>
                    : lift<&bfind<u64, false>>;
    else
      run = sign    ? shift ? lift<&bfind<i32, true>> : lift<&bfind<i32, false>>
               : shift ? lift<&bfind<u32, true>>
                    : lift<&bfind<u32, false>>;
  }
  uniform(s, run, t);
  s.dst = Type::U32;
  return run != nullptr;
}

bool select_field(const Instruction &in, Selected &s, Type t) {
  uniform(s, in.opcode == "bfe" ? pick<Extract, u32, u64, i32, i64>(t) : pick<Insert, u32, u64>(t),
          t);
  for (size_t i = in.opcode == "bfe" ? 1 : 2; i < 4; ++i) s.src[i] = Type::U32;
  return s.run != nullptr;
}

bool select_predicate(const Instruction &in, Selected &s) {
  Run run = in.opcode == "and"   ? &logic<BitAnd>
            : in.opcode == "or"  ? &logic<BitOr>
            : in.opcode == "xor" ? &logic<BitXor>
            : in.opcode == "not" ? &logic_not
            : in.opcode == "mov" ? &logic_copy
                                 : nullptr;
  return uniform(s, run, Type::Pred);
}

}  // namespace

bool select_bits(const Instruction &in, Selected &s) {
  Type t = in.type(), b = bits_of(t);
  if (in.opcode == "mov" && t != Type::Pred) {
    s.shape = Shape::Address;
    return uniform(s, pick<Copy, u8, u16, u32, u64>(b), t);
  }
  if (t == Type::Pred) return select_predicate(in, s);
  if (in.opcode == "selp") {
    uniform(s, any<Select>(b), t);
    s.src[2] = Type::Pred;
    return s.run != nullptr;
  }
  if (in.opcode == "and") return uniform(s, any<And>(b), t);
  if (in.opcode == "or") return uniform(s, any<Or>(b), t);
  if (in.opcode == "xor") return uniform(s, any<Xor>(b), t);
  if (in.opcode == "not") return uniform(s, any<Not>(b), t);
  if (in.opcode == "cnot") return uniform(s, any<Cnot>(b), t);
  if (in.opcode == "shl" || in.opcode == "shr") return select_shift(in, s, t);
  if (in.opcode == "shf") return select_funnel(in, s);
  if (in.opcode == "prmt") return select_prmt(in, s);
  if (in.opcode == "lop3")
    return uniform(s, in.has("or") || in.has("and") ? nullptr : &lop3, Type::B32);
  if (in.opcode == "brev")
    return uniform(s, b == Type::B64 ? lift<&brev<u64>> : lift<&brev<u32>>, t);
  if (in.opcode == "popc" || in.opcode == "clz" || in.opcode == "bfind")
    return select_count(in, s, t);
  if (in.opcode == "bfe" || in.opcode == "bfi") return select_field(in, s, t);
  if (in.opcode == "fns") return uniform(s, lift<&fns>, Type::B32);
  if (in.opcode == "bmsk")
    return uniform(s, in.has("wrap") ? lift<&bmsk_wrap> : lift<&bmsk_clamp>, Type::B32);
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
