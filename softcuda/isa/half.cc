// SPDX-License-Identifier: Apache-2.0
//
// f16, bf16 and pairs of them. PTX rounds them to nearest even only.
#include <algorithm>
#include <cmath>

#include "softcuda/isa/narrow.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// Operations on doubles; applied to a single value or to both of a pair.
struct Add {
  static double run(double a, double b) { return a + b; }
};
struct Sub {
  static double run(double a, double b) { return a - b; }
};
struct Mul {
  static double run(double a, double b) { return a * b; }
};
struct Fma {
  static double run(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Exp2 {
  static double run(double a) { return std::exp2(a); }
};
struct Tanh {
  static double run(double a) { return std::tanh(a); }
};
struct Min {
  static double run(double a, double b) {
    return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  static double run(double a, double b) {
    return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? b : a;
  }
};
struct MinNan {
  static double run(double a, double b) { return a != a || b != b ? NAN : Min::run(a, b); }
};
struct MaxNan {
  static double run(double a, double b) { return a != a || b != b ? NAN : Max::run(a, b); }
};
// .sat and .relu are applied to the rounded result.
struct Plain {
  static double run(double a) { return a; }
};
struct Saturated {
  static double run(double a) { return a > 0 ? std::min(a, 1.0) : 0; }
};
struct Relu {
  static double run(double a) { return a != a ? a : a > 0 ? a : 0; }
};

template <class F, class After, class T>
struct On {
  template <class... A>
  static T run(A... a) {
    return narrow<T>(After::run(F::run(static_cast<double>(widen(a))...)));
  }
};
template <class F, class After, class T>
struct On<F, After, Pair<T>> {
  template <class... A>
  static Pair<T> run(A... a) {
    return {On<F, After, T>::run(a.low...), On<F, After, T>::run(a.high...)};
  }
};

template <class F, class After, class T, class... Same>
Run lifted() {
  constexpr T (*function)(Same...) = &On<F, After, T>::template run<Same...>;
  return lift<function>;
}

template <class F, class After, class T>
Run of_arity(int n) {
  if constexpr (requires(double d) { F::run(d); })
    return n == 1 ? lifted<F, After, T, T>() : nullptr;
  else if constexpr (requires(double d) { F::run(d, d); })
    return n == 2 ? lifted<F, After, T, T, T>() : nullptr;
  else
    return n == 3 ? lifted<F, After, T, T, T, T>() : nullptr;
}

template <class F, class After>
Run of_type(Type t, int n) {
  switch (t) {
    case Type::F16: return of_arity<F, After, F16>(n);
    case Type::BF16: return of_arity<F, After, BF16>(n);
    case Type::F16x2: return of_arity<F, After, Pair<F16>>(n);
    case Type::BF16x2: return of_arity<F, After, Pair<BF16>>(n);
    default: return nullptr;
  }
}

template <class F>
Run choose(const Instruction &in, Type t, int n) {
  if (in.has("sat")) return of_type<F, Saturated>(t, n);
  if (in.has("relu")) return of_type<F, Relu>(t, n);
  return of_type<F, Plain>(t, n);
}

// neg and abs change the sign bits of one value or two.
template <u32 Bits>
u32 flip(u32 a) {
  return a ^ Bits;
}
template <u32 Bits>
u32 clear(u32 a) {
  return a & ~Bits;
}

Run sign(const Instruction &in, Type t) {
  bool two = t == Type::F16x2 || t == Type::BF16x2;
  if (in.opcode == "neg") return two ? lift<&flip<0x80008000>> : lift<&flip<0x8000>>;
  if (in.opcode == "abs") return two ? lift<&clear<0x80008000>> : lift<&clear<0x8000>>;
  return nullptr;
}

}  // namespace

bool select_half(const Instruction &in, Selected &s) {
  Type t = in.type();
  bool half = t == Type::F16 || t == Type::F16x2 || t == Type::BF16 || t == Type::BF16x2;
  if (!half || in.has("xorsign")) return false;
  Run run = sign(in, t);
  if (in.opcode == "add") run = choose<Add>(in, t, 2);
  if (in.opcode == "sub") run = choose<Sub>(in, t, 2);
  if (in.opcode == "mul") run = choose<Mul>(in, t, 2);
  if (in.opcode == "fma") run = choose<Fma>(in, t, 3);
  if (in.opcode == "ex2") run = choose<Exp2>(in, t, 1);
  if (in.opcode == "tanh") run = choose<Tanh>(in, t, 1);
  if (in.opcode == "min") run = in.has("NaN") ? choose<MinNan>(in, t, 2) : choose<Min>(in, t, 2);
  if (in.opcode == "max") run = in.has("NaN") ? choose<MaxNan>(in, t, 2) : choose<Max>(in, t, 2);
  return uniform(s, run, t);
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
