// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of every type and state space, with many patterns of addresses over the lanes of
// a warp, against the same on the host. The device has short cuts for some patterns.
#include <cstdint>
#include <cstring>
#include <random>

#include "check.h"

using u32 = uint32_t;

constexpr u32 kElements = 96, kPatterns = 160;

enum Space { Shared, Global, Local, GenericShared };

// One pattern: which element each lane accesses, and which lanes take part.
struct Pattern {
  u32 at[32];
  u32 mask;
};

// The compiler does not know the state space of this pointer.
template <class T>
__device__ T *generic(T *p) {
  uint64_t a = uint64_t(p);
  asm volatile("mov.u64 %0, %0;" : "+l"(a));
  return reinterpret_cast<T *>(a);
}

template <class T>
__device__ void access(T *array, const Pattern &p, const T *fresh, T *loaded) {
  u32 lane = threadIdx.x;
  if (p.mask >> lane & 1) {
    loaded[lane] = array[p.at[lane]];
    array[p.at[lane]] = fresh[lane];
  }
}

// For each pattern: what the lanes load, and the array after their stores. Each lane has a local
// array of its own; that of lane 0 is returned.
template <class T, Space S>
__global__ void run(const Pattern *patterns, const T *initial, const T *fresh, T *loaded, T *arrays, T *scratch) {
  __shared__ alignas(16) T shared[kElements];
  alignas(16) T local[kElements];
  T *array = S == Shared ? shared : S == Local ? local : S == Global ? scratch : generic(shared);
  for (u32 n = 0; n < kPatterns; ++n) {
    u32 first = S == Local ? 0 : threadIdx.x, step = S == Local ? 1 : 32;
    for (u32 i = first; i < kElements; i += step) array[i] = initial[i];
    __syncwarp();
    // Written out for each space, so that each compiles to instructions of its own.
    if (S == Shared) access(shared, patterns[n], fresh, loaded + 32 * n);
    if (S == Local) access(local, patterns[n], fresh, loaded + 32 * n);
    if (S == Global || S == GenericShared) access(array, patterns[n], fresh, loaded + 32 * n);
    __syncwarp();
    if (S == Local && threadIdx.x != 0) continue;
    for (u32 i = first; i < kElements; i += step) arrays[kElements * n + i] = array[i];
  }
}

std::mt19937 engine(7);

Pattern random_pattern() {
  Pattern p;
  u32 kind = engine() % 8, base = engine() % 64, other = engine() % 80, stride = engine() % 4;
  for (u32 i = 0; i < 32; ++i) {
    switch (kind) {
      case 0: p.at[i] = base; break;
      case 1: p.at[i] = base + i; break;
      case 2: p.at[i] = i < 16 ? base : other; break;
      case 3: p.at[i] = (i < 16 ? base : other) + i % 16; break;
      case 4: p.at[i] = i * stride % kElements; break;
      case 5: p.at[i] = base + 31 - i; break;
      case 6: p.at[i] = i == other % 32 ? other : base + i; break;
      default: p.at[i] = engine() % kElements; break;
    }
  }
  u32 lanes = engine() % 3;
  p.mask = lanes == 0 ? engine() : lanes == 1 ? (2u << engine() % 32) - 1 : ~0u;
  return p;
}

template <class T>
struct Vector {
  T *p;
  explicit Vector(u32 n) { CUDA(cudaMallocManaged(&p, n * sizeof(T))); }
  ~Vector() { cudaFree(p); }
};

template <class T, Space S>
void check(const char *name) {
  static Pattern *patterns = [] {
    static Vector<Pattern> all(kPatterns);
    for (u32 n = 0; n < kPatterns; ++n) all.p[n] = random_pattern();
    return all.p;
  }();
  Vector<T> initial(kElements), fresh(32), loaded(32 * kPatterns), arrays(kElements * kPatterns), scratch(kElements);
  auto random = [](T *p, u32 n) {
    for (u32 i = 0; i < n * sizeof(T); ++i) reinterpret_cast<uint8_t *>(p)[i] = uint8_t(engine());
  };
  random(initial.p, kElements);
  random(fresh.p, 32);
  std::memset(static_cast<void *>(loaded.p), 0, 32 * kPatterns * sizeof(T));
  run<T, S><<<1, 32>>>(patterns, initial.p, fresh.p, loaded.p, arrays.p, scratch.p);
  CUDA(cudaDeviceSynchronize());
  for (u32 n = 0; n < kPatterns; ++n) {
    std::vector<T> array(initial.p, initial.p + kElements), values(32);
    std::memset(static_cast<void *>(values.data()), 0, 32 * sizeof(T));
    for (u32 i = 0; i < 32; ++i)
      if (patterns[n].mask >> i & 1) values[i] = array[patterns[n].at[i]];
    for (u32 i = 0; i < (S == Local ? 1 : 32); ++i)
      if (patterns[n].mask >> i & 1) array[patterns[n].at[i]] = fresh.p[i];
    bool same = std::memcmp(values.data(), loaded.p + 32 * n, 32 * sizeof(T)) == 0 &&
                std::memcmp(array.data(), arrays.p + kElements * n, kElements * sizeof(T)) == 0;
    if (same) continue;
    std::fprintf(stderr, "%s, space %d, pattern %u (mask %#x)\n", name, S, n, patterns[n].mask);
    std::exit(1);
  }
}

template <class T>
void check_spaces(const char *name) {
  check<T, Shared>(name);
  check<T, Global>(name);
  check<T, Local>(name);
  check<T, GenericShared>(name);
}

// Registers may be wider than the elements; compilers use that rarely.
__global__ void widened(const int16_t *in, int64_t *out) {
  __shared__ int16_t s[64];
  s[threadIdx.x] = in[threadIdx.x];
  s[threadIdx.x + 32] = in[threadIdx.x + 32];
  __syncwarp();
  u32 base = u32(__cvta_generic_to_shared(s)), lane = threadIdx.x;
  u32 at[] = {base, base + 2 * lane, base + 2 * (63 - lane), base + (lane < 16 ? 6 : 8)};
  for (int k = 0; k < 4; ++k) {
    asm volatile("ld.shared.s16 %0, [%1];" : "=l"(out[64 * k + lane]) : "r"(at[k]));
    asm volatile("ld.shared.u16 %0, [%1];" : "=l"(out[64 * k + 32 + lane]) : "r"(at[k]));
  }
}
void check_widened() {
  Vector<int16_t> in(64);
  Vector<int64_t> out(256);
  for (u32 i = 0; i < 64; ++i) in.p[i] = int16_t(engine());
  widened<<<1, 32>>>(in.p, out.p);
  CUDA(cudaDeviceSynchronize());
  for (u32 i = 0; i < 32; ++i) {
    u32 at[] = {0, i, 63 - i, i < 16 ? 3u : 4u};
    for (int k = 0; k < 4; ++k) {
      CHECK(out.p[64 * k + i] == in.p[at[k]]);
      CHECK(out.p[64 * k + 32 + i] == uint16_t(in.p[at[k]]));
    }
  }
}

// One lane, or all of them, reads the element behind the end of 32.
__global__ void beyond(const int *global, int *out, Pattern p, bool in_shared) {
  __shared__ int s[32];
  s[threadIdx.x] = 0;
  __syncwarp();
  out[threadIdx.x] = in_shared ? s[p.at[threadIdx.x]] : global[p.at[threadIdx.x]];
}
int read_beyond(const char *space, const char *name) {
  int *out, *block;
  CUDA(cudaMalloc(&out, 512));
  CUDA(cudaMalloc(&block, 512));  // the granularity of the checks
  Pattern p{};
  for (u32 i = 0; i < 32; ++i) {
    p.at[i] = std::strcmp(name, "same") == 0          ? 32
              : std::strcmp(name, "consecutive") == 0 ? 1 + i
              : std::strcmp(name, "halves") == 0      ? (i < 16 ? 3 : 17) + i % 16
                                                      : (i == 7 ? 32 : 31 - i);
  }
  beyond<<<1, 32>>>(block + 96, out, p, std::strcmp(space, "shared") == 0);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  return passed();
}

int main(int argc, char **argv) {
  if (argc > 2) return read_beyond(argv[1], argv[2]);
  check_spaces<int8_t>("s8");
  check_spaces<uint8_t>("u8");
  check_spaces<int16_t>("s16");
  check_spaces<uint16_t>("u16");
  check_spaces<u32>("u32");
  check_spaces<uint64_t>("u64");
  check_spaces<uchar4>("v4.u8");
  check_spaces<ushort2>("v2.u16");
  check_spaces<uint2>("v2.u32");
  check_spaces<uint4>("v4.u32");
  check_spaces<ulonglong2>("v2.u64");
  check_widened();
  return passed();
}
