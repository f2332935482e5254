// SPDX-License-Identifier: Apache-2.0
//
// f32 and f64. An instruction with a rounding mode or .ftz runs with the host's MXCSR set to it, so
// the compiler must not contract or fold anything here (-ffp-contract=off). Approximate
// instructions use the host's mathematical library, which is within the documented bounds.
#include <xmmintrin.h>

#include <bit>
#include <cmath>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

template <class T>
struct Add {
  static T run(T a, T b) { return a + b; }
};
template <class T>
struct Sub {
  static T run(T a, T b) { return a - b; }
};
template <class T>
struct Mul {
  static T run(T a, T b) { return a * b; }
};
template <class T>
struct Div {
  static T run(T a, T b) { return a / b; }
};
template <class T>
struct Fma {
  static T run(T a, T b, T c) { return std::fma(a, b, c); }
};
template <class T>
struct Rcp {
  static T run(T a) { return T{1} / a; }
};
template <class T>
struct Sqrt {
  static T run(T a) { return std::sqrt(a); }
};
template <class T>
struct Rsqrt {
  static T run(T a) { return T{1} / std::sqrt(a); }
};
template <class T>
struct Neg {
  static T run(T a) { return -a; }
};
template <class T>
struct Abs {
  static T run(T a) { return std::fabs(a); }
};

// -0 is less than +0. If one operand is a NaN, min and max return the other one, and min.NaN and
// max.NaN return the canonical NaN (PTX ISA, section min).
template <class T>
T canonical_nan() {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<T>(0x7fffffffu);
  else
    return std::bit_cast<T>(u64{0x7fffffffffffffff});
}
template <class T>
bool below(T a, T b) {
  return a < b || (a == b && std::signbit(a));
}
template <class T>
struct Min {
  static T run(T a, T b) { return a != a ? b : b != b ? a : below(a, b) ? a : b; }
};
template <class T>
struct Max {
  static T run(T a, T b) { return a != a ? b : b != b ? a : below(a, b) ? b : a; }
};
template <class T>
struct MinNan {
  static T run(T a, T b) { return a != a || b != b ? canonical_nan<T>() : Min<T>::run(a, b); }
};
template <class T>
struct MaxNan {
  static T run(T a, T b) { return a != a || b != b ? canonical_nan<T>() : Max<T>::run(a, b); }
};
// The sign of a, the magnitude of b.
template <class T>
struct Copysign {
  static T run(T a, T b) { return std::copysign(b, a); }
};

float sine(float a) { return std::sin(a); }
float cosine(float a) { return std::cos(a); }
float log_two(float a) { return std::log2(a); }
float exp_two(float a) { return std::exp2(a); }
float tangent_h(float a) { return std::tanh(a); }

// The .approx.ftz forms for f64 use and return only the upper 32 bits.
double upper_half(double v) {
  return std::bit_cast<double>(std::bit_cast<u64>(v) & ~0xffffffffull);
}
double rcp_approx64(double a) { return upper_half(1 / upper_half(a)); }
double rsqrt_approx64(double a) { return upper_half(1 / std::sqrt(upper_half(a))); }

template <class T>
struct Finite {
  static bool run(T a) { return std::isfinite(a); }
};
template <class T>
struct Infinite {
  static bool run(T a) { return std::isinf(a); }
};
template <class T>
struct Number {
  static bool run(T a) { return a == a; }
};
template <class T>
struct NotANumber {
  static bool run(T a) { return a != a; }
};
template <class T>
struct Normal {
  static bool run(T a) { return std::isnormal(a); }
};
template <class T>
struct Subnormal {
  static bool run(T a) { return a != 0 && std::isfinite(a) && !std::isnormal(a); }
};

// .sat: clamps to [0, 1]; a NaN becomes 0.
void saturate(Warp &w, const Op &o, Mask m) {
  if (o.aux & 16) {
    double *d = w.row<double>(o.dst);
    for_lanes(m, [&](u32 i) { d[i] = d[i] > 0 ? d[i] < 1 ? d[i] : 1 : 0; });
  } else {
    float *d = w.row<float>(o.dst);
    for_lanes(m, [&](u32 i) { d[i] = d[i] > 0 ? d[i] < 1 ? d[i] : 1 : 0; });
  }
}

// Runs Op::inner with the rounding mode and flushing in Op::aux.
[[gnu::noinline]] void under_mode(Warp &w, const Op &o, Mask m) {
  constexpr u32 kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  constexpr u32 kRounding[] = {0x0000, 0x6000, 0x2000, 0x4000};  // nearest, zero, down, up
  u32 saved = _mm_getcsr();
  u32 mode = (saved & ~0x6000u) | kRounding[o.aux & 3];
  if (o.aux & kFlush) mode |= kFlushToZero | kDenormalsAreZero;
  _mm_setcsr(mode);
  o.inner(w, o, m);
  if (o.aux & kSaturate) saturate(w, o, m);
  _mm_setcsr(saved);
}

template <template <class> class F>
Run any(Type t) {
  return pick<F, float, double>(t);
}

Run approximate(const Instruction &in, Type t) {
  bool single = t == Type::F32;
  if (in.opcode == "sin") return single ? lift<&sine> : nullptr;
  if (in.opcode == "cos") return single ? lift<&cosine> : nullptr;
  if (in.opcode == "lg2") return single ? lift<&log_two> : nullptr;
  if (in.opcode == "ex2") return single ? lift<&exp_two> : nullptr;
  if (in.opcode == "tanh") return single ? lift<&tangent_h> : nullptr;
  bool approx64 = t == Type::F64 && in.has("approx");
  if (in.opcode == "rcp") return approx64 ? lift<&rcp_approx64> : any<Rcp>(t);
  if (in.opcode == "rsqrt")
    return approx64 && in.has("ftz") ? lift<&rsqrt_approx64> : any<Rsqrt>(t);
  if (in.opcode == "sqrt") return any<Sqrt>(t);
  return nullptr;
}

Run arithmetic(const Instruction &in, Type t) {
  if (in.opcode == "add") return any<Add>(t);
  if (in.opcode == "sub") return any<Sub>(t);
  if (in.opcode == "mul") return any<Mul>(t);
  if (in.opcode == "div") return any<Div>(t);
  if (in.opcode == "fma" || in.opcode == "mad") return any<Fma>(t);
  if (in.opcode == "neg") return any<Neg>(t);
  if (in.opcode == "abs") return any<Abs>(t);
  if (in.opcode == "copysign") return any<Copysign>(t);
  if (in.opcode == "min") return in.has("NaN") ? any<MinNan>(t) : any<Min>(t);
  if (in.opcode == "max") return in.has("NaN") ? any<MaxNan>(t) : any<Max>(t);
  return nullptr;
}

bool select_test(const Instruction &in, Selected &s, Type t) {
  Run run = in.has("finite")       ? any<Finite>(t)
            : in.has("infinite")   ? any<Infinite>(t)
            : in.has("number")     ? any<Number>(t)
            : in.has("notanumber") ? any<NotANumber>(t)
            : in.has("normal")     ? any<Normal>(t)
            : in.has("subnormal")  ? any<Subnormal>(t)
                                   : nullptr;
  uniform(s, run, t);
  s.dst = Type::Pred;
  return run != nullptr;
}

}  // namespace

u16 mode_of(const Instruction &in) {
  u16 mode = in.has("rz") ? kToZero : in.has("rm") ? kDown : in.has("rp") ? kUp : kNearest;
  if (in.has("ftz")) mode |= kFlush;
  if (in.has("sat")) mode |= kSaturate;
  return mode;
}

void apply_mode(Selected &s, u16 mode) {
  if (mode == 0 || s.run == nullptr) return;
  s.inner = s.run;
  s.run = &under_mode;
  s.aux = static_cast<u16>(mode | (s.dst == Type::F64 ? 16 : 0));
}

bool select_floating(const Instruction &in, Selected &s) {
  Type t = in.type();
  if ((t != Type::F32 && t != Type::F64) || in.has("xorsign")) return false;
  if (in.opcode == "testp") return select_test(in, s, t);
  // Mixed precision (sm_100) has a second type, and is not supported.
  if (in.type(1) != Type::None) return false;
  Run run = arithmetic(in, t);
  if (run == nullptr) run = approximate(in, t);
  if (run == nullptr) return false;
  uniform(s, run, t);
  apply_mode(s, mode_of(in));
  return true;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
