// SPDX-License-Identifier: Apache-2.0
//
// From a function on values to an instruction on a warp.
//
// PTX has about a hundred arithmetic instructions, most of them for several types. Each is written
// as a function on single values:
//
//     template <class T> struct Add { static T run(T a, T b) { return a + b; } };
//
// lift<&Add<u32>::run> is then a Run. Its parameter types tell how to read the source rows: In<u32>
// reads a cell of 32 bits, In<bool> a bit of a predicate. Its result type tells how to write the
// destination. for_lanes applies the function to all active lanes. If all 32 are active, this is a
// loop over consecutive cells, which the compiler vectorises.
//
// PTX types appear as C++ types: u8 … i64, float, double, F16, BF16, Pair of these; bool is a
// predicate. A cell has 32 bits, or 64 for 64-bit types.
//
// Arithmetic is compiled twice (isa/meson.build), into the namespaces `baseline` and `v3`
// (x86-64-v3: AVX2 and FMA), between which isa/select.cc chooses at run time. The rest is compiled
// once, into `any`.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "softcuda/vm/warp.h"

#ifndef CKPT_ISA
#error "isa/ is compiled for a named instruction set"
#endif

namespace ckpt::softcuda::isa::CKPT_ISA {

using vm::kAllLanes;
using vm::kLanes;
using vm::Mask;
using vm::Op;
using vm::Run;
using vm::Warp;

using i8 = std::int8_t;
using i16 = std::int16_t;
// `using` would not accept __extension__, without which -Wpedantic rejects these types.
__extension__ typedef __int128 i128;           // NOLINT(modernize-use-using)
__extension__ typedef unsigned __int128 u128;  // NOLINT(modernize-use-using)

// C++20 has no 16-bit floating-point types.
struct F16 {
  u16 bits;
};
struct BF16 {
  u16 bits;
};
template <class T>
struct Pair {
  T low, high;
};

template <class T>
using Cell = std::conditional_t<sizeof(T) == 8, u64, u32>;

template <class T>
inline T from_cell(Cell<T> c) {
  if constexpr (sizeof(T) == 1)
    return std::bit_cast<T>(static_cast<u8>(c));
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<T>(static_cast<u16>(c));
  else
    return std::bit_cast<T>(c);
}

// Signed values are sign-extended to the whole cell, as ld and cvt to wider registers require.
template <class T>
inline Cell<T> to_cell(T v) {
  if constexpr (std::is_same_v<T, i8> || std::is_same_v<T, i16>)
    return static_cast<u32>(static_cast<i32>(v));
  else if constexpr (sizeof(T) == 1)
    return std::bit_cast<u8>(v);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<u16>(v);
  else
    return std::bit_cast<Cell<T>>(v);
}

template <class F>
[[gnu::always_inline]] inline void for_lanes(Mask m, F f) {
  if (m == kAllLanes) {
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (u32 i = 0; i < kLanes; ++i) f(i);
  } else {
    for (; m != 0; m &= m - 1) f(static_cast<u32>(std::countr_zero(m)));
  }
}

template <class T>
struct In {
  const Cell<T> *cells;
  In(const Warp &w, u32 row) : cells(w.row<Cell<T>>(row)) {}
  [[gnu::always_inline]] T operator[](u32 i) const { return from_cell<T>(cells[i]); }
};

template <>
struct In<bool> {
  u32 bits;
  In(const Warp &w, u32 row) : bits(w.bits(row)) {}
  [[gnu::always_inline]] bool operator[](u32 i) const { return bits >> i & 1; }
};

// Replaces the bits of the lanes `m` of a predicate.
inline void set_bits(const Warp &w, u32 row, Mask m, u32 value) {
  if (row == vm::kNoRow) return;
  u32 &bits = w.bits(row);
  bits = (bits & ~m) | (value & m);
}

template <auto F>
struct Lift;

template <class D, class... A, D (*F)(A...)>
struct Lift<F> {
  static void run(Warp &w, const Op &o, Mask m) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      const u32 rows[] = {o.a, o.b, o.c, o.d};
      apply(w, o, m, In<A>(w, rows[I])...);
    }
    (std::index_sequence_for<A...>());
  }

 private:
  [[gnu::always_inline]] static void apply(Warp &w, const Op &o, Mask m, In<A>... in) {
    if constexpr (std::is_same_v<D, bool>) {
      u32 bits[kLanes] = {};
      for_lanes(m, [&](u32 i) { bits[i] = static_cast<u32>(F(in[i]...)) << i; });
      u32 all = 0;
      for (u32 b : bits) all |= b;
      set_bits(w, o.dst, m, all);
    } else {
      Cell<D> *out = w.row<Cell<D>>(o.dst);
      for_lanes(m, [&](u32 i) { out[i] = to_cell<D>(F(in[i]...)); });
    }
  }
};

template <auto F>
inline constexpr Run lift = &Lift<F>::run;

}  // namespace ckpt::softcuda::isa::CKPT_ISA
