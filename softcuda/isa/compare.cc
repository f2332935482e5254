// SPDX-License-Identifier: Apache-2.0
//
// setp, set and slct (PTX ISA, "Comparison and Selection Instructions").
#include <algorithm>
#include <array>

#include "softcuda/isa/narrow.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// A comparison without U is false where a NaN takes part, with it true.
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
struct Gt {
  static bool run(T a, T b) { return a > b; }
};
template <class T>
struct Ge {
  static bool run(T a, T b) { return a >= b; }
};
template <class T>
struct Equ {
  static bool run(T a, T b) { return !(a < b) && !(a > b); }
};
template <class T>
struct Neu {
  static bool run(T a, T b) { return !(a == b); }
};
template <class T>
struct Ltu {
  static bool run(T a, T b) { return !(a >= b); }
};
template <class T>
struct Leu {
  static bool run(T a, T b) { return !(a > b); }
};
template <class T>
struct Gtu {
  static bool run(T a, T b) { return !(a <= b); }
};
template <class T>
struct Geu {
  static bool run(T a, T b) { return !(a < b); }
};
template <class T>
struct Num {
  static bool run(T a, T b) { return a == a && b == b; }
};
template <class T>
struct Nan {
  static bool run(T a, T b) { return a != a || b != b; }
};

// What is compared: 16-bit floats as f32; the high ones of pairs, too.
template <class T, bool High>
auto comparable(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return widen(v);
  else if constexpr (sizeof(T) == 4 && std::is_class_v<T>)
    return widen(High ? v.high : v.low);
  else
    return v;
}

template <template <class> class C, class T, bool High = false>
Mask compare(const Warp &w, const Op &o, Mask m) {
  In<T> a(w, o.a), b(w, o.b);
  u32 bits[kLanes] = {};
  using V = decltype(comparable<T, High>(a[0]));
  for_lanes(m, [&](u32 i) {
    bits[i] = static_cast<u32>(C<V>::run(comparable<T, High>(a[i]), comparable<T, High>(b[i])))
              << i;
  });
  u32 all = 0;
  for (u32 b : bits) all |= b;
  return all;
}

enum Combine : u16 { kAlone = 0, kAnd = 1, kOr = 2, kXor = 3, kNegated = 4 };

// With the third source, a predicate, if there is one.
Mask combined(const Warp &w, const Op &o, Mask bits) {
  if ((o.aux & 3) == kAlone) return bits;
  Mask c = w.bits(o.c);
  if (o.aux & kNegated) c = ~c;
  return (o.aux & 3) == kAnd ? bits & c : (o.aux & 3) == kOr ? bits | c : bits ^ c;
}

template <template <class> class C, class T>
void setp(Warp &w, const Op &o, Mask m) {
  constexpr bool kPair = sizeof(T) == 4 && std::is_class_v<T>;
  Mask bits = compare<C, T>(w, o, m);
  Mask other = kPair ? compare<C, T, true>(w, o, m) : ~bits;
  // Both before either is written: the third source may be one of them.
  Mask first = combined(w, o, bits), second = combined(w, o, other);
  set_bits(w, o.dst, m, first);
  set_bits(w, o.dst2, m, second);
}

// imm: what stands for true.
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

template <template <class> class C, class T>
Run form(bool to_predicate) {
  return to_predicate ? &setp<C, T> : &set<C, T>;
}

template <template <class> class C, class... Ts>
Run by_type(Type t, bool to_predicate) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = form<C, Ts>(to_predicate)) : void()), ...);
  return found;
}

// Orders of integers, also .lo .ls .hi .hs of unsigned ones; then floats.
template <template <class> class C>
Run ordered(Type t, bool p) {
  return by_type<C, u16, u32, u64, i16, i32, i64, float, double, F16, BF16, Pair<F16>, Pair<BF16>>(
      t, p);
}
template <template <class> class C>
Run floats(Type t, bool p) {
  return by_type<C, float, double, F16, BF16, Pair<F16>, Pair<BF16>>(t, p);
}

Run choose(const Instruction &in, Type t, bool p) {
  struct Row {
    std::string_view name;
    Run (*choose)(Type, bool);
  };
  static constexpr std::array kRows{
      Row{"eq", &ordered<Eq>},  Row{"ne", &ordered<Ne>},  Row{"lt", &ordered<Lt>},
      Row{"le", &ordered<Le>},  Row{"gt", &ordered<Gt>},  Row{"ge", &ordered<Ge>},
      Row{"lo", &ordered<Lt>},  Row{"ls", &ordered<Le>},  Row{"hi", &ordered<Gt>},
      Row{"hs", &ordered<Ge>},  Row{"equ", &floats<Equ>}, Row{"neu", &floats<Neu>},
      Row{"ltu", &floats<Ltu>}, Row{"leu", &floats<Leu>}, Row{"gtu", &floats<Gtu>},
      Row{"geu", &floats<Geu>}, Row{"num", &floats<Num>}, Row{"nan", &floats<Nan>}};
  for (const Row &row : kRows)
    if (!in.modifiers.empty() && in.modifiers[0] == row.name) return row.choose(t, p);
  return nullptr;
}

u16 combine_of(const Instruction &in) {
  u16 c = in.has("and") ? kAnd : in.has("or") ? kOr : in.has("xor") ? kXor : kAlone;
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
  uniform(s, choose(in, src, to_predicate), src);
  s.dst = to_predicate ? Type::Pred : in.type(0);
  s.src[2] = Type::Pred;
  u16 combine = combine_of(in);
  s.imm = true_of(s.dst, src);
  if (in.has("ftz") && s.run != nullptr) {
    if (combine != kAlone) return false;
    apply_mode(s, kFlush);  // aux is then the mode, whose low bits are "alone"
  } else {
    s.aux = combine;
  }
  return s.run != nullptr;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
