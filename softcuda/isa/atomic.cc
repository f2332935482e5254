// SPDX-License-Identifier: Apache-2.0
//
// atom and red. Blocks run on several threads of the host, so these use the host's atomics: a loop
// around a sequentially consistent compare-and-swap, which is at least as strong as any .sem and
// .scope.
#include <algorithm>

#include "softcuda/isa/narrow.h"
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  else if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else if constexpr (sizeof(T) == 2)
    return narrow<T>(static_cast<double>(widen(a)) + widen(b));
  else
    return {sum(a.low, b.low), sum(a.high, b.high)};
}

template <class T>
struct Add {
  static T run(T old, T b, T) { return sum(old, b); }
};
template <class T>
struct Min {
  static T run(T old, T b, T) { return std::min(old, b); }
};
template <class T>
struct Max {
  static T run(T old, T b, T) { return std::max(old, b); }
};
template <class T>
struct And {
  static T run(T old, T b, T) { return old & b; }
};
template <class T>
struct Or {
  static T run(T old, T b, T) { return old | b; }
};
template <class T>
struct Xor {
  static T run(T old, T b, T) { return old ^ b; }
};
template <class T>
struct Exch {
  static T run(T, T b, T) { return b; }
};
template <class T>
struct Cas {
  static T run(T old, T b, T c) { return old == b ? c : old; }
};
template <class T>
struct Inc {
  static T run(T old, T b, T) { return old >= b ? 0 : old + 1; }
};
template <class T>
struct Dec {
  static T run(T old, T b, T) { return old == 0 || old > b ? b : old - 1; }
};

template <size_t Bytes>
using Word = std::conditional_t<Bytes == 8, u64, std::conditional_t<Bytes == 4, u32, u16>>;

template <class F, class T>
T update(char *p, T b, T c) {
  using V = Word<sizeof(T)>;
  V *at = reinterpret_cast<V *>(p);
  V old = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    V wanted = std::bit_cast<V>(F::run(std::bit_cast<T>(old), b, c));
    if (__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return std::bit_cast<T>(old);
  }
}

template <template <class> class F, class T, Where W>
void atomic(Warp &w, const Op &o, Mask m) {
  In<T> b(w, o.b), c(w, o.c == vm::kNoRow ? o.b : o.c);
  for_places<W>(w, o, m, sizeof(T), true, [&](u32 lane, char *p) {
    T old = update<F<T>, T>(p, b[lane], c[lane]);
    if (o.dst != vm::kNoRow) w.row<Cell<T>>(o.dst)[lane] = to_cell<T>(old);
  });
}

template <template <class> class F, class T>
Run by_space(Where where) {
  switch (where) {
    case Where::Shared: return &atomic<F, T, Where::Shared>;
    case Where::Local: return &atomic<F, T, Where::Local>;
    default: return &atomic<F, T, Where::Global>;
  }
}

template <template <class> class F, class... Ts>
Run by_type(Type t, Where where) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = by_space<F, Ts>(where)) : void()), ...);
  return found;
}

Run choose(const Instruction &in, Type t, Where w) {
  if (in.has("add"))
    return by_type<Add, u32, u64, i32, i64, float, double, F16, BF16, Pair<F16>, Pair<BF16>>(t, w);
  if (in.has("min")) return by_type<Min, u32, u64, i32, i64>(t, w);
  if (in.has("max")) return by_type<Max, u32, u64, i32, i64>(t, w);
  if (in.has("and")) return by_type<And, u32, u64>(t, w);
  if (in.has("or")) return by_type<Or, u32, u64>(t, w);
  if (in.has("xor")) return by_type<Xor, u32, u64>(t, w);
  if (in.has("exch")) return by_type<Exch, u32, u64>(t, w);
  if (in.has("cas")) return by_type<Cas, u16, u32, u64>(t, w);
  if (in.has("inc")) return by_type<Inc, u32>(t, w);
  if (in.has("dec")) return by_type<Dec, u32>(t, w);
  return nullptr;
}

}  // namespace

bool select_atomic(const Instruction &in, Selected &s) {
  bool red = in.opcode == "red";
  if ((!red && in.opcode != "atom") || in.has("async")) return false;
  Type t = in.type();
  uniform(s, choose(in, t, where(in.space())), t);
  s.shape = red ? Shape::Reduce : Shape::Atomic;
  s.flow = vm::Flow::Checked;
  return s.run != nullptr;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
