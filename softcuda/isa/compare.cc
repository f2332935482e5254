// SPDX-License-Identifier: Apache-2.0
//
// setp, set and slct (PTX ISA, "Comparison and Selection Instructions").
#include <algorithm>
#include <array>

#include "softcuda/isa/narrow.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// All other comparisons are made from these, by swapping the sources or inverting the result. An
// ordered comparison with a NaN is false; an unordered one (equ, ltu …) is true.
template <class T>
struct Eq {
  static bool run(T a, T b) { return a == b; }
};
template <class T>
struct Ne {
  static bool run(T a, T b) { return a < b || a > b; }
};
template <class T>
struct Lt {
  static bool run(T a, T b) { return a < b; }
};
template <class T>
struct Le {
  static bool run(T a, T b) { return a <= b; }
};
template <class T>
struct Num {
  static bool run(T a, T b) { return a == a && b == b; }
};

// The operand as it is compared: 16-bit floats as f32. High: the upper half of a pair.
template <class T, bool High>
auto comparable(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return widen(v);
  else if constexpr (sizeof(T) == 4 && std::is_class_v<T>)
    return widen(High ? v.high : v.low);
  else
    return v;
}

// Op::imm: the value for true in the lower half, these flags in the upper one. Op::aux holds the
// mode of under_mode().
enum Form : u64 {
  kAlone = 0,
  kAnd = 1ull << 32,
  kOr = 2ull << 32,
  kXor = 3ull << 32,
  kCombine = 3ull << 32,
  kNegated = 4ull << 32,   // the third source
  kSwapped = 8ull << 32,   // the second source is compared with the first
  kInverted = 16ull << 32  // the result
};

u64 form_of(const Op &o) { return static_cast<u64>(o.imm); }

template <template <class> class C, class T, bool High = false>
Mask compare(const Warp &w, const Op &o, Mask m) {
  bool swapped = form_of(o) & kSwapped, inverted = form_of(o) & kInverted;
  In<T> a(w, swapped ? o.b : o.a), b(w, swapped ? o.a : o.b);
  u32 bits[kLanes] = {};
  using V = decltype(comparable<T, High>(a[0]));
  for_lanes(m, [&](u32 i) {
    bits[i] = static_cast<u32>(C<V>::run(comparable<T, High>(a[i]), comparable<T, High>(b[i])))
              << i;
  });
  u32 all = 0;
  for (u32 b : bits) all |= b;
  return inverted ? ~all : all;
}

// Combines the result with the third source, a predicate, if there is one.
Mask combined(const Warp &w, const Op &o, Mask bits) {
  u64 how = form_of(o) & kCombine;
  if (how == kAlone) return bits;
  Mask c = w.bits(o.c);
  if (form_of(o) & kNegated) c = ~c;
  return how == kAnd ? bits & c : how == kOr ? bits | c : bits ^ c;
}

template <template <class> class C, class T>
void setp(Warp &w, const Op &o, Mask m) {
  constexpr bool kPair = sizeof(T) == 4 && std::is_class_v<T>;
  Mask bits = compare<C, T>(w, o, m);
  Mask other = kPair ? compare<C, T, true>(w, o, m) : ~bits;
  // Compute both before writing either, because the third source may be one of the results.
  Mask first = combined(w, o, bits), second = combined(w, o, other);
  set_bits(w, o.dst, m, first);
  set_bits(w, o.dst2, m, second);
}

template <template <class> class C, class T>
void set(Warp &w, const Op &o, Mask m) {
  constexpr bool kPair = sizeof(T) == 4 && std::is_class_v<T>;
  Mask low = combined(w, o, compare<C, T>(w, o, m));
  Mask high = kPair ? combined(w, o, compare<C, T, true>(w, o, m)) : 0;
  u32 *out = w.row<u32>(o.dst);
  u32 yes = static_cast<u32>(o.imm);
  for_lanes(
      m, [&](u32 i) { out[i] = ((low >> i & 1) ? yes : 0) | ((high >> i & 1) ? yes << 16 : 0); });
}

template <template <class> class C, class... Ts>
Run by_type(Type t, bool to_predicate) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = to_predicate ? &setp<C, Ts> : &set<C, Ts>) : void()), ...);
  return found;
}

template <template <class> class C>
Run floats(Type t, bool p) {
  return by_type<C, float, double, F16, BF16, Pair<F16>, Pair<BF16>>(t, p);
}
// Equality of integers does not depend on their signedness.
Run equal(Type t, bool p) {
  if (Run run = floats<Eq>(t, p)) return run;
  return by_type<Eq, u16, u32, u64>(bits_of(t), p);
}
template <template <class> class C>
Run ordered(Type t, bool p) {
  if (Run run = floats<C>(t, p)) return run;
  return by_type<C, u16, u32, u64, i16, i32, i64>(t, p);
}
Run unequal(Type t, bool p) { return floats<Ne>(t, p); }

struct Comparison {
  std::string_view name;
  Run (*choose)(Type, bool);
  u64 form = 0;
};
// .lo .ls .hi .hs compare unsigned integers.
constexpr std::array kComparisons{Comparison{"eq", &equal},
                                  Comparison{"lt", &ordered<Lt>},
                                  Comparison{"le", &ordered<Le>},
                                  Comparison{"gt", &ordered<Lt>, kSwapped},
                                  Comparison{"ge", &ordered<Le>, kSwapped},
                                  Comparison{"lo", &ordered<Lt>},
                                  Comparison{"ls", &ordered<Le>},
                                  Comparison{"hi", &ordered<Lt>, kSwapped},
                                  Comparison{"hs", &ordered<Le>, kSwapped},
                                  Comparison{"equ", &unequal, kInverted},
                                  Comparison{"neu", &equal, kInverted},
                                  Comparison{"ltu", &ordered<Le>, kSwapped | kInverted},
                                  Comparison{"leu", &ordered<Lt>, kSwapped | kInverted},
                                  Comparison{"gtu", &ordered<Le>, kInverted},
                                  Comparison{"geu", &ordered<Lt>, kInverted},
                                  Comparison{"num", &floats<Num>},
                                  Comparison{"nan", &floats<Num>, kInverted}};

// The comparison of operands of type `t`. Adds its flags to s.imm.
Run choose(const Instruction &in, Type t, bool p, Selected &s) {
  if (in.modifiers.empty()) return nullptr;
  std::string_view name = in.modifiers[0];
  // For integers, ne is the inverse of eq. For floats it is not, because of NaNs.
  if (!ptx::is_float(t) && name == "ne") {
    s.imm |= static_cast<i64>(kInverted);
    return equal(t, p);
  }
  if (name == "ne") return unequal(t, p);
  for (const Comparison &c : kComparisons) {
    if (name != c.name) continue;
    if (!ptx::is_float(t) && name.size() == 3) return nullptr;
    s.imm |= static_cast<i64>(c.form);
    return c.choose(t, p);
  }
  return nullptr;
}

u64 combine_of(const Instruction &in) {
  u64 c = in.has("and") ? kAnd : in.has("or") ? kOr : in.has("xor") ? kXor : kAlone;
  if (c != kAlone && in.operands.size() == 4 && in.operands[3].negated) c |= kNegated;
  return c;
}

i64 true_of(Type dst, Type src) {
  bool pair = src == Type::F16x2 || src == Type::BF16x2;
  switch (dst) {
    case Type::F32: return 0x3f800000;
    case Type::F16:
    case Type::F16x2: return 0x3c00;
    case Type::BF16:
    case Type::BF16x2: return 0x3f80;
    default: return pair || ptx::size_of(dst) == 2 ? 0xffff : 0xffffffff;
  }
}

template <class T>
struct Slct {
  static T run(T a, T b, i32 c) { return c >= 0 ? a : b; }
};
template <class T>
struct SlctFloat {
  static T run(T a, T b, float c) { return c >= 0 ? a : b; }
};

bool select_slct(const Instruction &in, Selected &s) {
  Type t = in.type(0), c = in.type(1);
  bool wide = ptx::size_of(t) == 8;
  Run run = nullptr;
  if (c == Type::S32) run = wide ? lift<&Slct<u64>::run> : lift<&Slct<u32>::run>;
  if (c == Type::F32) run = wide ? lift<&SlctFloat<u64>::run> : lift<&SlctFloat<u32>::run>;
  uniform(s, run, t);
  s.src[2] = c;
  return run != nullptr;
}

}  // namespace

bool select_compare(const Instruction &in, Selected &s) {
  if (in.opcode == "slct") return select_slct(in, s);
  bool to_predicate = in.opcode == "setp";
  if (!to_predicate && in.opcode != "set") return false;
  Type src = in.type(to_predicate ? 0 : 1);
  s.imm = static_cast<i64>(combine_of(in));
  uniform(s, choose(in, src, to_predicate, s), src);
  s.dst = to_predicate ? Type::Pred : in.type(0);
  s.src[2] = Type::Pred;
  s.imm |= true_of(s.dst, src);
  if (in.has("ftz")) apply_mode(s, kFlush);
  return s.run != nullptr;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
