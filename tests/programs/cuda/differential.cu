// SPDX-License-Identifier: Apache-2.0
//
// Functions compiled from one source for the host and for the device, with random inputs. The
// results must be identical where IEEE 754 or the language demands it. Elsewhere they must be
// within the bound of the CUDA C++ Programming Guide ("Mathematical Functions") plus one for the
// host's library.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "check.h"

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

#define BOTH __host__ __device__ inline

struct Input {
  u64 a, b, c;
};

template <class To, class From>
BOTH To as(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To t;
  memcpy(&t, &v, sizeof t);
  return t;
}
BOTH float f(u64 v) { return as<float>(u32(v)); }
BOTH double d(u64 v) { return as<double>(v); }
BOTH u64 bits(float v) { return as<u32>(v); }
BOTH u64 bits(double v) { return as<u64>(v); }
template <class T>
BOTH u64 bits(T v) {
  return u64(v);
}

// name, bound in ulps (0: identical), kind of inputs, expression of in.a, in.b, in.c
#define FUNCTIONS(X)                                                                              \
  X(add32, 0, Any, u32(in.a) + u32(in.b))                                                         \
  X(mul16, 0, Any, u16(u16(in.a) * u16(in.b)))                                                    \
  X(mul64, 0, Any, in.a *in.b + in.c)                                                             \
  X(mulwide, 0, Any, i64(i32(in.a)) * i64(i32(in.b)))                                             \
  X(mulhi, 0, Any, u64((u64(u32(in.a)) * u32(in.b)) >> 32))                                       \
  X(div32, 0, Any, i32(in.a) / (i32(in.b >> 9) | 1))                                              \
  X(rem32, 0, Any, i32(in.a) % (i32(in.b >> 40) | 1))                                             \
  X(divu32, 0, Any, u32(in.a) / (u32(in.b) >> 7 | 1))                                             \
  X(div64, 0, Any, i64(in.a) / (i64(in.b) >> 13 | 1))                                             \
  X(remu64, 0, Any, in.a % (in.b >> 3 | 1))                                                       \
  X(shl64, 0, Any, in.a << (in.b & 63))                                                           \
  X(shr64, 0, Any, i64(in.a) >> (in.b & 63))                                                      \
  X(shr32, 0, Any, i32(in.a) >> (in.b & 31))                                                      \
  X(rotate, 0, Any, u32(in.a) << (in.b & 31) | u32(in.a) >> (-in.b & 31))                         \
  X(logic, 0, Any, (in.a & ~in.b) ^ (in.c | in.b))                                                \
  X(chars, 0, Any, i32(i16(in.a)) + u8(in.b) - int(i8(in.c)))                            \
  X(minmax, 0, Any, (i64(in.a) < i64(in.b) ? in.a : in.b) + (u32(in.c) > u32(in.b) ? in.c : 1))   \
  X(cmp, 0, Any, (i32(in.a) < i32(in.b)) + 2 * (u16(in.a) >= u16(in.c)) + 4 * (in.b == in.c))     \
  X(fadd, 0, Floats, f(in.a) + f(in.b))                                                           \
  X(fsub, 0, Floats, f(in.a) - f(in.b))                                                           \
  X(fmul, 0, Floats, f(in.a) * f(in.b))                                                           \
  X(fdiv, 0, Floats, f(in.a) / f(in.b))                                                           \
  X(ffma, 0, Floats, fmaf(f(in.a), f(in.b), f(in.c)))                                             \
  X(fsqrt, 0, Floats, sqrtf(f(in.a)))                                                             \
  X(ffloor, 0, Floats, floorf(f(in.a)) + ceilf(f(in.b)))                                          \
  X(frint, 0, Floats, rintf(f(in.a)))                                                             \
  X(ftrunc, 0, Floats, truncf(f(in.a)))                                                           \
  X(fmod32, 0, Floats, fmodf(f(in.a), f(in.b)))                                                   \
  X(fminmax, 0, Floats, fminf(f(in.a), f(in.b)) - fmaxf(f(in.b), f(in.c)))                        \
  X(fsign, 0, Floats, copysignf(fabsf(f(in.a)), f(in.b)))                                         \
  X(fless, 0, Floats, (f(in.a) < f(in.b)) + 2 * (f(in.a) >= f(in.c)) + 4 * (f(in.b) != f(in.c)))  \
  X(dadd, 0, Doubles, d(in.a) + d(in.b))                                                          \
  X(dmul, 0, Doubles, d(in.a) * d(in.b))                                                          \
  X(ddiv, 0, Doubles, d(in.a) / d(in.b))                                                          \
  X(dfma, 0, Doubles, fma(d(in.a), d(in.b), d(in.c)))                                             \
  X(dsqrt, 0, Doubles, sqrt(d(in.a)))                                                             \
  X(dround, 0, Doubles, floor(d(in.a)) + ceil(d(in.b)) + rint(d(in.c)))                           \
  X(dfmod, 0, Doubles, fmod(d(in.a), d(in.b)))                                                    \
  X(dless, 0, Doubles, (d(in.a) < d(in.b)) + 2 * !(d(in.a) > d(in.c)))                            \
  X(f2d, 0, Floats, double(f(in.a)))                                                              \
  X(d2f, 0, Doubles, float(d(in.a)))                                                              \
  X(i2f, 0, Any, float(i32(in.a)))                                                                \
  X(u2f, 0, Any, float(u32(in.a)))                                                                \
  X(l2f, 0, Any, float(i64(in.a)))                                                                \
  X(ul2f, 0, Any, float(in.a))                                                                    \
  X(l2d, 0, Any, double(i64(in.a)))                                                               \
  X(ul2d, 0, Any, double(in.a))                                                                   \
  X(f2i, 0, Small, i32(f(in.a)))                                                                  \
  X(f2l, 0, Small, i64(f(in.a)))                                                                  \
  X(d2l, 0, SmallD, i64(d(in.a)))                                                                 \
  X(d2u, 0, SmallD, u32(fabs(d(in.a))))                                                           \
  X(h2f, 0, Any, __half2float(as<__half>(u16(in.a))))                                             \
  X(f2h, 0, Floats, __half2float(__float2half(f(in.a))))                                          \
  X(b2f, 0, Any, __bfloat162float(as<__nv_bfloat16>(u16(in.a))))                                  \
  X(f2b, 0, Floats, __bfloat162float(__float2bfloat16(f(in.a))))                                  \
  X(sinf_, 3, Small, sinf(f(in.a)))                                                               \
  X(cosf_, 3, Small, cosf(f(in.a)))                                                               \
  X(tanf_, 5, Small, tanf(f(in.a)))                                                               \
  X(expf_, 2, Small, expf(f(in.a)))                                                               \
  X(exp2f_, 3, Small, exp2f(f(in.a)))                                                             \
  X(logf_, 2, Floats, logf(fabsf(f(in.a))))                                                       \
  X(log10f_, 3, Floats, log10f(fabsf(f(in.a))))                                                   \
  X(powf_, 5, Small, powf(fabsf(f(in.a)), f(in.b) / 100))                                         \
  X(atan2f_, 4, Floats, atan2f(f(in.a), f(in.b)))                                                 \
  X(tanhf_, 3, Small, tanhf(f(in.a)))                                                             \
  X(erff_, 3, Small, erff(f(in.a)))                                                               \
  X(cbrtf_, 2, Floats, cbrtf(f(in.a)))                                                            \
  X(hypotf_, 4, Floats, hypotf(f(in.a), f(in.b)))                                                 \
  X(sin_, 3, SmallD, sin(d(in.a)))                                                                \
  X(cos_, 3, SmallD, cos(d(in.a)))                                                                \
  X(exp_, 2, SmallD, exp(d(in.a)))                                                                \
  X(log_, 2, Doubles, log(fabs(d(in.a))))                                                         \
  X(pow_, 3, SmallD, pow(fabs(d(in.a)), d(in.b) / 100))                                           \
  X(atan_, 3, Doubles, atan(d(in.a)))                                                             \
  X(tanh_, 3, SmallD, tanh(d(in.a)))                                                              \
  X(erf_, 3, SmallD, erf(d(in.a)))                                                                \
  X(cbrt_, 5, Doubles, cbrt(d(in.a)))                                                             \
  X(tgamma_, 12, SmallD, tgamma(fabs(d(in.a)) / 10 + 0.5))

enum Kind { Any, Floats, Doubles, Small, SmallD };

#define DEFINE(name, ulps, kind, expression)                                         \
  BOTH u64 name##_of(const Input &in) { return bits(expression); }                   \
  __global__ void name##_kernel(const Input *in, u64 *out, int n) {                  \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                   \
    if (i < n) out[i] = name##_of(in[i]);                                            \
  }
FUNCTIONS(DEFINE)

template <class T>
constexpr int width_of(T) {
  return std::is_same_v<T, float> ? 4 : std::is_same_v<T, double> ? 8 : 0;
}

// Distance in units of the last place; NaN equals NaN.
u64 distance(u64 x, u64 y, int width) {
  if (width == 0) return x == y ? 0 : ~u64(0);
  bool nx = width == 4 ? std::isnan(f(x)) : std::isnan(d(x)), ny = width == 4 ? std::isnan(f(y)) : std::isnan(d(y));
  if (nx || ny) return nx == ny ? 0 : ~u64(0);
  if (x == y) return 0;
  u64 top = width == 4 ? 1ull << 31 : 1ull << 63;
  auto ordered = [&](u64 v) { return v & top ? top - (v & (top - 1)) : top + v; };
  u64 a = ordered(x), b = ordered(y);
  return a > b ? a - b : b - a;
}

std::mt19937_64 engine(20251);

u64 special(bool wide) {
  static const u32 kFloats[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                0x7fc00000, 1,          0x007fffff, 0x00800000, 0x7f7fffff, 0x3effffff};
  u32 v = kFloats[engine() % 12];
  return wide ? bits(double(f(v))) : v;
}

// Libraries of the host differ in how they treat signalling NaNs.
u32 quiet(u32 v) { return (v & 0x7fffffff) > 0x7f800000 ? v | 0x00400000 : v; }

u64 random_of(Kind kind) {
  u64 v = engine();
  switch (kind) {
    case Floats: return v % 16 == 0 ? special(false) : quiet(u32(v >> 7));
    case Doubles: return v % 16 == 0 ? special(true) : engine();
    case Small: return bits(float(i64(v % 200001) - 100000) / 2500.0f);
    case SmallD: return bits(double(i64(v % 2000001) - 1000000) / 25000.0);
    default: return v;
  }
}

int failures = 0;

template <class H, class K>
void compare(const char *name, u64 bound, Kind kind, int width, H host, K kernel) {
  const int n = 4000;
  static Input *in = nullptr;
  static u64 *out = nullptr;
  if (in == nullptr) CUDA(cudaMallocManaged(&in, n * sizeof(Input)));
  if (out == nullptr) CUDA(cudaMallocManaged(&out, n * sizeof(u64)));
  for (int i = 0; i < n; ++i) in[i] = {random_of(kind), random_of(kind), random_of(kind)};
  kernel<<<(n + 127) / 128, 128>>>(in, out, n);
  CUDA(cudaDeviceSynchronize());
  u64 worst = 0;
  int at = 0;
  for (int i = 0; i < n; ++i)
    if (u64 far = distance(host(in[i]), out[i], width); far > worst) worst = far, at = i;
  if (worst <= bound) return;
  ++failures;
  std::fprintf(stderr, "%s(%#llx, %#llx, %#llx): host %#llx, device %#llx\n", name, (unsigned long long)in[at].a,
               (unsigned long long)in[at].b, (unsigned long long)in[at].c, (unsigned long long)host(in[at]),
               (unsigned long long)out[at]);
}

// Intrinsics that do not exist on the host, against plain C++.
__global__ void intrinsics(const Input *in, u64 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 a = u32(in[i].a), b = u32(in[i].b), c = u32(in[i].c);
  u64 *o = out + 16 * i;
  o[0] = __popc(a) + 100 * __clz(a) + 10000 * __ffs(a);
  o[1] = __brev(a) + (u64(__brevll(in[i].a)) ^ in[i].b);
  o[2] = __byte_perm(a, b, c);
  o[3] = __funnelshift_l(a, b, c & 31) + u64(__funnelshift_r(a, b, c & 31)) * 3;
  o[4] = u32(__mulhi(i32(a), i32(b))) + u64(__umulhi(a, b));
  o[5] = __umul64hi(in[i].a, in[i].b) + u64(__mul64hi(i64(in[i].a), i64(in[i].b)));
  o[6] = u32(__dp4a(i32(a), i32(b), i32(c)));
  o[7] = __sad(i32(a), i32(b), c);
  o[8] = u32(__vadd2(a, b)) + u64(__vmaxs4(a, b));
  o[9] = __float_as_uint(__fadd_rz(f(a & 0x7effffff), f(b & 0x7effffff)));
  o[10] = __float_as_uint(__fadd_ru(f(a & 0x7effffff), f(b & 0x7effffff)));
  o[11] = u32(__float2int_rd(f(a & 0x80ffffff | 0x43000000)));
  o[12] = __popcll(in[i].a) + 100 * __clzll(in[i].b >> 5);
  o[13] = u32(__hadd(i32(a), i32(b))) + u64(u32(__rhadd(i32(a), i32(b))));
  o[14] = u32(__float2int_rz(f(a)));
  o[15] = __hfma(as<__half>(u16(a)), __float2half(1.5f), __float2half(0.25f)) == __float2half(0.25f);
}

u32 perm(u32 a, u32 b, u32 s) {
  u64 v = u64(b) << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) {
    u32 sel = s >> (4 * i) & 7;
    r |= u32(u8(v >> (8 * sel))) << (8 * i);
  }
  return r;
}

void check_intrinsics() {
  const int n = 2000;
  Input *in;
  u64 *out;
  CUDA(cudaMallocManaged(&in, n * sizeof(Input)));
  CUDA(cudaMallocManaged(&out, 16 * n * sizeof(u64)));
  for (int i = 0; i < n; ++i) in[i] = {engine(), engine(), engine()};
  intrinsics<<<(n + 63) / 64, 64>>>(in, out, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    u32 a = u32(in[i].a), b = u32(in[i].b), c = u32(in[i].c);
    const u64 *o = out + 16 * i;
    CHECK(o[0] == u64(__builtin_popcount(a) + 100 * (a ? __builtin_clz(a) : 32) + 10000 * __builtin_ffs(int(a))));
    CHECK(o[2] == perm(a, b, c & 0x7777));
    u64 both = u64(b) << 32 | a;
    CHECK(o[3] == u32(both << (c & 31) >> 32) + u64(u32(both >> (c & 31))) * 3);
    CHECK(o[4] == u32((i64(i32(a)) * i32(b)) >> 32) + ((u64(a) * b) >> 32));
    CHECK(o[5] == u64((unsigned __int128)in[i].a * in[i].b >> 64) + u64((__int128)i64(in[i].a) * i64(in[i].b) >> 64));
    i32 dot = i32(c);
    for (int k = 0; k < 32; k += 8) dot = i32(u32(dot) + u32(int((signed char)(a >> k)) * (signed char)(b >> k)));
    CHECK(o[6] == u32(dot));
    CHECK(o[7] == u32(c + (i32(a) > i32(b) ? a - b : b - a)));
    CHECK(o[12] == u64(__builtin_popcountll(in[i].a) + 100 * (in[i].b >> 5 ? __builtin_clzll(in[i].b >> 5) : 64)));
    CHECK(o[13] == u32((i64(i32(a)) + i32(b)) >> 1) + u64(u32((i64(i32(a)) + i32(b) + 1) >> 1)));
    float sum = f(a & 0x7effffff) + f(b & 0x7effffff);
    double exact = double(f(a & 0x7effffff)) + f(b & 0x7effffff);
    CHECK(double(f(o[9])) <= exact && double(f(o[10])) >= exact && (f(o[9]) == sum || f(o[10]) == sum));
    CHECK(i32(o[11]) == i32(std::floor(f((a & 0x80ffffff) | 0x43000000))));
  }
}

// Atomics and shuffles, against results that do not depend on the order.
__global__ void atomics(u32 *p, float *q, u64 *r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&p[0], u32(i));
  atomicMax(&p[1], u32(i * 37 % 1009));
  atomicMin(&p[2], u32(i * 37 % 1009 + 5));
  atomicXor(&p[3], u32(i * 2654435761u));
  atomicInc(&p[4], 99);
  atomicOr(&p[5], 1u << (i & 31));
  atomicAdd(q, 0.5f);
  atomicAdd(reinterpret_cast<double *>(r), 0.25);
  atomicAdd(reinterpret_cast<unsigned long long *>(r + 1), 3ull);
  u32 old = p[6], seen;
  do {
    seen = old;
    old = atomicCAS(&p[6], seen, seen + 2);
  } while (old != seen);
}

__global__ void shuffles(int *out) {
  int lane = threadIdx.x % 32, v = lane * 3 + 1;
  int *o = out + threadIdx.x * 13;
  o[0] = __shfl_sync(~0u, v, (lane * 7) % 32);
  o[1] = __shfl_up_sync(~0u, v, 3, 16);
  o[2] = __shfl_down_sync(~0u, v, 5);
  o[3] = __shfl_xor_sync(~0u, v, 9);
  o[4] = __ballot_sync(~0u, lane % 3 == 0);
  o[5] = __all_sync(~0u, lane < 32) + 2 * __any_sync(~0u, lane == 40);
  o[6] = __match_any_sync(~0u, lane / 5);
  double dv = v;
  o[7] = int(__shfl_sync(~0u, dv, 4));
  o[8] = lane < 7 ? __popc(__activemask()) : 0;
  o[9] = lane & 1 ? __shfl_xor_sync(0xaaaaaaaa, v, 2) : __shfl_xor_sync(0x55555555, v, 4);
  o[10] = __syncthreads_count(threadIdx.x % 4 == 0);
  // The lanes of one shuffle reach it by two paths.
  if (lane & 1) {
    asm volatile("// odd");
    o[12] = __shfl_sync(~0u, v * 3, lane ^ 1);
  } else {
    asm volatile("// even");
    o[12] = __shfl_sync(~0u, v * 2, lane ^ 1);
  }
  o[11] = __syncthreads_or(threadIdx.x == 50) + 2 * __syncthreads_and(threadIdx.x < 64);
}

void check_together() {
  const int n = 5000;
  u32 *p;
  float *q;
  u64 *r;
  CUDA(cudaMallocManaged(&p, 64));
  CUDA(cudaMallocManaged(&q, 64));
  CUDA(cudaMallocManaged(&r, 64));
  p[2] = ~0u;
  u32 sum = 0, most = 0, least = ~0u, x = 0;
  for (int i = 0; i < n; ++i) {
    sum += i;
    most = std::max(most, u32(i * 37 % 1009));
    least = std::min(least, u32(i * 37 % 1009 + 5));
    x ^= i * 2654435761u;
  }
  atomics<<<(n + 95) / 96, 96>>>(p, q, r, n);
  CUDA(cudaDeviceSynchronize());
  CHECK(p[0] == sum && p[1] == most && p[2] == least && p[3] == x && p[4] == n % 100 && p[5] == ~0u && p[6] == 2 * n);
  CHECK(*q == n * 0.5f && d(r[0]) == n * 0.25 && r[1] == 3 * n);

  int *out;
  CUDA(cudaMallocManaged(&out, 64 * 13 * sizeof(int)));
  shuffles<<<1, 64>>>(out);
  CUDA(cudaDeviceSynchronize());
  for (int t = 0; t < 64; ++t) {
    int lane = t % 32;
    const int *o = out + t * 13;
    auto v = [](int l) { return l * 3 + 1; };
    CHECK(o[0] == v(lane * 7 % 32));
    CHECK(o[1] == v(lane % 16 >= 3 ? lane - 3 : lane));
    CHECK(o[2] == v(lane + 5 < 32 ? lane + 5 : lane));
    CHECK(o[3] == v(lane ^ 9));
    CHECK(u32(o[4]) == 0x49249249u);
    CHECK(o[5] == 1);
    CHECK(u32(o[6]) == u32(((1ull << std::min(32, lane / 5 * 5 + 5)) - 1) & ~((1ull << lane / 5 * 5) - 1)));
    CHECK(o[7] == v(4));
    CHECK(o[8] == (lane < 7 ? 7 : 0));
    CHECK(o[9] == v(lane & 1 ? lane ^ 2 : lane ^ 4));
    CHECK(o[10] == 16);
    CHECK(o[11] == 3);
    CHECK(o[12] == v(lane ^ 1) * (lane & 1 ? 2 : 3));
  }
}

int main() {
#define COMPARE(name, ulps, kind, expression) \
  compare(#name, ulps, kind, [] { Input in{}; return width_of(expression); }(), name##_of, name##_kernel);
  FUNCTIONS(COMPARE)
  CHECK(failures == 0);
  check_intrinsics();
  check_together();
  return passed();
}
