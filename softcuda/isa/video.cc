// SPDX-License-Identifier: Apache-2.0
//
// Video instructions (PTX ISA, "Video Instructions"): vadd … vset on one part of a register, vadd2
// … vset4 on two half-words or four bytes of two registers. All of them extract parts, compute with
// more than 32 bits, saturate, and then either combine the result with c or merge it into c. What
// an instruction does is a Form in Op::imm, and one function executes all of them: they are too
// rare for more.
#include <algorithm>
#include <array>
#include <optional>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

using ptx::Operand;

enum class Kind : u64 { Add, Sub, AbsDiff, Min, Max, Average, Shl, Shr, Mad, Set };
enum class Second : u64 { None, Add, Min, Max };
enum class Compare : u64 { Eq, Ne, Lt, Le, Gt, Ge };

// A part of a register: .b0 to .b3, .h0, .h1, or all of it.
enum Part : u8 { kByte0 = 0, kHalf0 = 4, kHalf1 = 5, kWhole = 6 };

struct Form {
  Kind kind : 4;
  Compare compare : 3;
  Second second : 2;
  u64 elements : 3;  // 1: a scalar instruction
  bool signed_d : 1, signed_a : 1, signed_b : 1;
  bool saturate : 1;
  bool wrap : 1;                     // shifts: the distance modulo 32
  bool minus_ab : 1;                 // vmad: -a or -b
  bool minus_c : 1;                  // vmad
  bool plus_one : 1;                 // vmad.po
  u64 scale : 4;                     // vmad: 7, 15 or 0
  u64 part_d : 3;                    // scalar: kWhole, or where the result is merged into c
  u64 mask : 4;                      // SIMD: the elements that are computed
  u64 select_a : 12, select_b : 12;  // scalar: a Part; SIMD: an element of {b, a} in 3 bits each
};
static_assert(sizeof(Form) == sizeof(Op::imm));

i64 extended(u32 v, u32 bits, bool sign) {
  u64 kept = v & ((1ull << bits) - 1);
  return sign && kept >> (bits - 1) != 0 ? static_cast<i64>(kept) - (i64{1} << bits)
                                         : static_cast<i64>(kept);
}
u32 width_of(u32 part) { return part < kHalf0 ? 8 : part < kWhole ? 16 : 32; }
u32 shift_of(u32 part) { return part < kHalf0 ? 8 * part : part == kHalf1 ? 16 : 0; }
i64 extracted(u32 v, u32 part, bool sign) {
  return extended(v >> shift_of(part), width_of(part), sign);
}

i128 clamped(i128 v, u32 bits, bool sign) {
  i128 low = sign ? -(i128{1} << (bits - 1)) : 0;
  return std::clamp(v, low, low + (i128{1} << bits) - 1);
}

bool holds(Compare c, i64 a, i64 b) {
  switch (c) {
    case Compare::Eq: return a == b;
    case Compare::Ne: return a != b;
    case Compare::Lt: return a < b;
    case Compare::Le: return a <= b;
    case Compare::Gt: return a > b;
    case Compare::Ge: return a >= b;
  }
  return false;
}

i128 computed(const Form &f, i64 a, i64 b) {
  switch (f.kind) {
    case Kind::Add: return a + b;
    case Kind::Sub: return a - b;
    case Kind::AbsDiff: return a < b ? b - a : a - b;
    case Kind::Min: return std::min(a, b);
    case Kind::Max: return std::max(a, b);
    case Kind::Average: return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case Kind::Shl:
      return static_cast<i128>(a) * (i128{1} << (f.wrap ? b & 31 : std::min<i64>(b, 32)));
    case Kind::Shr: return a >> (f.wrap ? b & 31 : std::min<i64>(b, 32));
    case Kind::Set: return holds(f.compare, a, b);
    case Kind::Mad: break;
  }
  return 0;
}

u32 multiplied(const Form &f, i64 a, i64 b, u32 c) {
  bool sign = f.signed_a || f.signed_b || f.minus_ab || f.minus_c;
  i128 product = static_cast<i128>(a) * b, addend = extended(c, 32, sign);
  if (f.plus_one) product += 1;
  if (f.minus_ab) product = -product;
  // The complement is taken before the extension.
  if (f.minus_c && !f.minus_ab) addend = static_cast<i128>(extended(~c, 32, sign)) + 1;
  i128 result = (product + addend) >> f.scale;
  return static_cast<u32>(f.saturate ? clamped(result, 32, sign) : result);
}

u32 scalar(const Form &f, u32 a, u32 b, u32 c) {
  i64 x = extracted(a, f.select_a, f.signed_a), y = extracted(b, f.select_b, f.signed_b);
  if (f.kind == Kind::Mad) return multiplied(f, x, y, c);
  i128 v = computed(f, x, y), addend = extended(c, 32, f.signed_d);
  u32 bits = width_of(f.part_d), shift = shift_of(f.part_d);
  if (f.saturate) v = clamped(v, bits, f.signed_d);
  switch (f.second) {
    case Second::Add: return static_cast<u32>(v + addend);
    case Second::Min: return static_cast<u32>(std::min(v, addend));
    case Second::Max: return static_cast<u32>(std::max(v, addend));
    case Second::None: break;
  }
  u32 field = static_cast<u32>((1ull << bits) - 1) << shift;
  return (static_cast<u32>(v) << shift & field) | (c & ~field);
}

u32 simd(const Form &f, u32 a, u32 b, u32 c) {
  const u32 bits = 32 / f.elements;
  const u64 both = u64{b} << 32 | a;
  auto element = [&](u64 selected, bool sign) {
    return extended(static_cast<u32>(both >> selected * bits), bits, sign);
  };
  bool adds = f.second == Second::Add;
  u32 sum = c, merged = c;
  for (u32 i = 0; i < f.elements; ++i) {
    if ((f.mask >> i & 1) == 0) continue;
    i128 v = computed(f, element(f.select_a >> 3 * i & 7, f.signed_a),
                      element(f.select_b >> 3 * i & 7, f.signed_b));
    if (f.saturate) v = clamped(v, bits, f.signed_d);
    u32 field = static_cast<u32>((1ull << bits) - 1) << bits * i;
    sum += static_cast<u32>(v);
    merged = (merged & ~field) | (static_cast<u32>(v) << bits * i & field);
  }
  return adds ? sum : merged;
}

template <u32 (*F)(const Form &, u32, u32, u32)>
void video(Warp &w, const Op &o, Mask m) {
  const Form f = std::bit_cast<Form>(o.imm);
  In<u32> a(w, o.a), b(w, o.b), c(w, o.c);
  u32 *out = w.row<u32>(o.dst);
  for_lanes(m, [&](u32 i) { out[i] = F(f, a[i], b[i], c[i]); });
}

template <class E>
struct Named {
  std::string_view name;
  E value;
};
constexpr std::array kKinds{
    Named<Kind>{"add", Kind::Add},         Named<Kind>{"sub", Kind::Sub},
    Named<Kind>{"absdiff", Kind::AbsDiff}, Named<Kind>{"min", Kind::Min},
    Named<Kind>{"max", Kind::Max},         Named<Kind>{"avrg", Kind::Average},
    Named<Kind>{"shl", Kind::Shl},         Named<Kind>{"shr", Kind::Shr},
    Named<Kind>{"mad", Kind::Mad},         Named<Kind>{"set", Kind::Set}};
constexpr std::array kCompares{
    Named<Compare>{"eq", Compare::Eq}, Named<Compare>{"ne", Compare::Ne},
    Named<Compare>{"lt", Compare::Lt}, Named<Compare>{"le", Compare::Le},
    Named<Compare>{"gt", Compare::Gt}, Named<Compare>{"ge", Compare::Ge}};
constexpr std::array kSeconds{Named<Second>{"add", Second::Add}, Named<Second>{"min", Second::Min},
                              Named<Second>{"max", Second::Max}};

template <class E, size_t N>
std::optional<E> find(const std::array<Named<E>, N> &all, std::string_view name) {
  for (const Named<E> &n : all)
    if (n.name == name) return n.value;
  return std::nullopt;
}

// The opcode: "vadd", "vadd2", "vadd4".
bool read_opcode(std::string_view opcode, Form &f) {
  if (!opcode.starts_with('v')) return false;
  opcode.remove_prefix(1);
  f.elements = opcode.ends_with('2') ? 2 : opcode.ends_with('4') ? 4 : 1;
  if (f.elements != 1) opcode.remove_suffix(1);
  std::optional<Kind> kind = find(kKinds, opcode);
  if (!kind) return false;
  f.kind = *kind;
  bool only_scalar = kind == Kind::Shl || kind == Kind::Shr || kind == Kind::Mad;
  return f.elements == 1 ? kind != Kind::Average : !only_scalar;
}

// The types of d, a and b; vset has none for its result, which is unsigned.
bool read_types(const Instruction &in, Form &f) {
  bool set = f.kind == Kind::Set;
  bool sign[3] = {};
  for (size_t i = set ? 1 : 0; i < 3; ++i) {
    Type t = in.type(set ? i - 1 : i);
    if (t != Type::U32 && t != Type::S32) return false;
    sign[i] = t == Type::S32;
  }
  f.signed_d = sign[0];
  f.signed_a = sign[1];
  f.signed_b = sign[2];
  return in.type(set ? 2 : 3) == Type::None;
}

// What follows the types. False: a modifier that this instruction does not have.
bool read_modifier(std::string_view m, Form &f) {
  Kind kind = f.kind;
  if (m == "u32" || m == "s32") return true;
  if (std::optional<Compare> c = find(kCompares, m); c && kind == Kind::Set) {
    f.compare = *c;
  } else if (m == "sat" && kind != Kind::Set) {
    f.saturate = true;
  } else if (std::optional<Second> s = find(kSeconds, m); s && kind != Kind::Mad) {
    f.second = *s;
    return f.elements == 1 || s == Second::Add;
  } else if (kind == Kind::Shl || kind == Kind::Shr) {
    f.wrap = m == "wrap";
    return m == "wrap" || m == "clamp";
  } else if (kind == Kind::Mad) {
    if (m == "po") f.plus_one = true;
    if (m == "shr7") f.scale = 7;
    if (m == "shr15") f.scale = 15;
    return m == "po" || m == "shr7" || m == "shr15";
  } else {
    return false;
  }
  return true;
}

// "b0" to "b3", "h0", "h1", or nothing.
std::optional<u32> part_of(std::string_view text) {
  if (text.empty()) return kWhole;
  if (text.size() != 2) return std::nullopt;
  u32 n = static_cast<u32>(text[1] - '0');
  if (text[0] == 'b' && n < 4) return kByte0 + n;
  if (text[0] == 'h' && n < 2) return kHalf0 + n;
  return std::nullopt;
}

// "h32", "b7654": the elements, the highest first. `first`: the default's lowest element.
std::optional<u32> selection_of(std::string_view text, u32 elements, u32 first) {
  u32 all = 0;
  for (u32 i = 0; i < elements; ++i) all |= (first + i) << 3 * i;
  if (text.empty()) return all;
  if (text.size() != elements + 1 || text[0] != (elements == 2 ? 'h' : 'b')) return std::nullopt;
  all = 0;
  for (char c : text.substr(1)) {
    u32 n = static_cast<u32>(c - '0');
    if (n >= 2 * elements) return std::nullopt;
    all = all << 3 | n;
  }
  return all;
}

// "h1", "b320": the elements that are computed, the highest first.
std::optional<u32> mask_of(std::string_view text, u32 elements) {
  if (text.empty()) return (1u << elements) - 1;
  if (text[0] != (elements == 2 ? 'h' : 'b')) return std::nullopt;
  u32 mask = 0, above = elements;
  for (char c : text.substr(1)) {
    u32 n = static_cast<u32>(c - '0');
    if (n >= above) return std::nullopt;
    above = n;
    mask |= 1u << n;
  }
  return mask == 0 ? std::nullopt : std::optional(mask);
}

bool read_scalar_parts(const Instruction &in, Form &f) {
  std::optional<u32> d = part_of(in.operands[0].part), a = part_of(in.operands[1].part),
                     b = part_of(in.operands[2].part);
  if (!d || !a || !b) return false;
  f.part_d = *d & 7;
  f.select_a = *a & 0xfff;
  f.select_b = *b & 0xfff;
  bool mad = f.kind == Kind::Mad;
  bool combines = f.second != Second::None, merges = *d != kWhole;
  if (mad ? merges : combines && merges) return false;
  return in.operands.size() == (mad || combines || merges ? 4 : 3);
}

bool read_simd_parts(const Instruction &in, Form &f) {
  u32 n = static_cast<u32>(f.elements);
  std::optional<u32> mask = mask_of(in.operands[0].part, n),
                     a = selection_of(in.operands[1].part, n, 0),
                     b = selection_of(in.operands[2].part, n, n);
  if (!mask || !a || !b || in.operands.size() != 4) return false;
  f.mask = *mask & 0xf;
  f.select_a = *a & 0xfff;
  f.select_b = *b & 0xfff;
  // Saturation cannot be combined with accumulation.
  return !(f.saturate && f.second != Second::None);
}

// -a, -b, -c of vmad.
bool read_signs(const Instruction &in, Form &f) {
  bool mad = f.kind == Kind::Mad, any = false;
  for (const Operand &o : in.operands) any |= o.negated;
  if (!any) return true;
  if (!mad || in.operands[0].negated) return false;
  f.minus_ab = in.operands[1].negated != in.operands[2].negated;
  f.minus_c = in.operands[3].negated;
  // .po adds one, as a negation does, so there is at most one of them.
  return !f.plus_one && !(f.minus_ab && f.minus_c);
}

bool read(const Instruction &in, Form &f) {
  if (!read_opcode(in.opcode, f) || !read_types(in, f) || in.operands.size() < 3) return false;
  bool compares = false;
  for (std::string_view m : in.modifiers) {
    if (!read_modifier(m, f)) return false;
    compares |= find(kCompares, m).has_value();
  }
  if (compares != (f.kind == Kind::Set)) return false;
  return (f.elements == 1 ? read_scalar_parts(in, f) : read_simd_parts(in, f)) && read_signs(in, f);
}

}  // namespace

bool select_video(const Instruction &in, Selected &s) {
  Form f{};
  if (!read(in, f)) return false;
  s.imm = std::bit_cast<i64>(f);
  return uniform(s, f.elements == 1 ? &video<scalar> : &video<simd>, Type::B32);
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
