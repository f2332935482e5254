// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic with the carry flag (PTX ISA, "Extended-Precision Integer Arithmetic"): add.cc, addc,
// sub.cc, subc, mad.cc, madc. The flag of a lane is its bit of Warp::carry; for subtractions it is
// the borrow.
#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

enum class Part { None, Low, High };

template <class T, Part P>
T product(T a, T b) {
  using W = std::conditional_t<sizeof(T) == 8, u128, u64>;
  W w = static_cast<W>(a) * b;
  return static_cast<T>(P == Part::High ? w >> (8 * sizeof(T)) : w);
}

template <class T>
T product_high_signed(T a, T b) {
  using S = std::make_signed_t<T>;
  using W = std::conditional_t<sizeof(T) == 8, i128, i64>;
  return static_cast<T>((static_cast<W>(static_cast<S>(a)) * static_cast<S>(b)) >> (8 * sizeof(T)));
}

// a + b + carry, or a - b - borrow. `carry` returns the flag.
template <class T, bool Subtract>
T step(T a, T b, u32 &carry) {
  T r = 0;
  bool first = Subtract ? __builtin_sub_overflow(a, b, &r) : __builtin_add_overflow(a, b, &r);
  bool second = Subtract ? __builtin_sub_overflow(r, static_cast<T>(carry), &r)
                         : __builtin_add_overflow(r, static_cast<T>(carry), &r);
  carry = first | second;
  return r;
}

// Takes: the flag is an input. Sets: the flag is an output.
template <class T, Part P, bool Signed, bool Subtract, bool Takes, bool Sets>
void extended(Warp &w, const Op &o, Mask m) {
  In<T> a(w, o.a), b(w, o.b), c(w, o.c);
  Cell<T> *out = w.row<Cell<T>>(o.dst);
  u32 flags = 0;
  for_lanes(m, [&](u32 i) {
    u32 carry = Takes ? w.carry >> i & 1 : 0;
    T left = a[i], right = b[i];
    if constexpr (P != Part::None) {
      left =
          P == Part::High && Signed ? product_high_signed(left, right) : product<T, P>(left, right);
      right = c[i];
    }
    out[i] = to_cell<T>(step<T, Subtract>(left, right, carry));
    flags |= carry << i;
  });
  if (Sets) w.carry = (w.carry & ~m) | (flags & m);
}

template <class T, Part P, bool Signed, bool Subtract>
Run flags(bool takes, bool sets) {
  if (takes)
    return sets ? &extended<T, P, Signed, Subtract, true, true>
                : &extended<T, P, Signed, Subtract, true, false>;
  return &extended<T, P, Signed, Subtract, false, true>;
}

template <class T>
Run choose(const Instruction &in, bool sign) {
  bool sets = in.has("cc");
  if (in.opcode == "add" || in.opcode == "addc")
    return flags<T, Part::None, false, false>(in.opcode == "addc", sets);
  if (in.opcode == "sub" || in.opcode == "subc")
    return flags<T, Part::None, false, true>(in.opcode == "subc", sets);
  bool takes = in.opcode == "madc";
  if (in.has("lo")) return flags<T, Part::Low, false, false>(takes, sets);
  if (!in.has("hi")) return nullptr;
  return sign ? flags<T, Part::High, true, false>(takes, sets)
              : flags<T, Part::High, false, false>(takes, sets);
}

}  // namespace

bool select_extended(const Instruction &in, Selected &s) {
  bool with_flag = in.opcode == "addc" || in.opcode == "subc" || in.opcode == "madc";
  bool sets = in.has("cc") && (in.opcode == "add" || in.opcode == "sub" || in.opcode == "mad");
  Type t = in.type();
  if ((!with_flag && !sets) || ptx::is_float(t)) return false;
  bool wide = ptx::size_of(t) == 8;
  return uniform(s, wide ? choose<u64>(in, ptx::is_signed(t)) : choose<u32>(in, ptx::is_signed(t)),
                 t);
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
