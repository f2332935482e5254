// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a warp's lanes, checked together.
//
// To find the bytes of one lane takes a comparison with each bound and a test of the alignment.
// Lane by lane, that costs far more than the access itself. But nearly always all lanes access one
// stretch of memory: the block's shared memory, the lane's own local memory, or the allocation that
// the instruction used last. There are three ways to find the bytes; each is tried where the one
// before it does not apply.
//
// 1. Halves: the lanes of each half of the warp access the same element, or elements that follow
//    each other. The tests are those of a single access for each half. Halves, because a block of
//    16 x 16 threads has two of its rows in a warp.
// 2. Each: the offsets of the lanes into the stretch are one vector, and so are the tests.
// 3. for_places (place.h), lane by lane. It also reports the first address that is out of bounds or
//    misaligned.
#pragma once

#include <immintrin.h>

#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

// Consecutive addresses from `begin` on. The bytes of lane i begin at host + i * apart.
struct Stretch {
  char *host = nullptr;
  u64 begin = 0;
  u64 bytes = 0;
  u64 apart = 0;
};

// The stretch that holds `address`, or one of 0 bytes.
template <Where W>
[[gnu::always_inline]] inline Stretch stretch_at(const Warp &w, const Op &o, u64 address,
                                                 bool write) {
  char *shared = reinterpret_cast<char *>(w.block->shared);
  if constexpr (W == Where::Shared) {
    return {shared, 0, w.block->shared_bytes, 0};
  } else if constexpr (W == Where::Global) {
    const vm::Range &r = w.cache[o.site];
    if (r.holds(address, 1) && (!write || r.writable)) return {r.host(r.base), r.base, r.bytes, 0};
    if (address - vm::kSharedWindow < w.block->shared_bytes)
      return {shared, vm::kSharedWindow, w.block->shared_bytes, 0};
    return {};
  } else {
    u32 base = W == Where::Frame ? w.frame->local_base : 0;
    return {reinterpret_cast<char *>(w.local + base), 0, w.local_bytes - base, w.local_stride};
  }
}

// `bytes` is a power of two. A division would take a quarter of the time of a load.
inline bool is_aligned(u64 address, u32 bytes) { return (address & (bytes - 1)) == 0; }

constexpr u32 kHalf = kLanes / 2;

// Whether all bits are zero. With AVX that is one instruction; the compiler makes ten of a loop.
template <class Vector>
[[gnu::always_inline]] inline bool is_zero(const Vector &v) {
#ifdef __AVX__
  return _mm256_testz_si256(reinterpret_cast<const __m256i &>(v),
                            reinterpret_cast<const __m256i &>(v)) != 0;
#else
  u64 words[sizeof v / sizeof(u64)], all = 0;
  std::memcpy(words, &v, sizeof v);
  for (u64 word : words) all |= word;
  return all == 0;
#endif
}

// `count` elements of `Size` bytes for each lane of a whole warp.
template <Where W, u32 Size>
struct Halves {
  char *host[2];  // of the first lane of each half
  bool same;      // all lanes of a half access the same bytes, not elements that follow each other

  [[gnu::always_inline]] bool find(const Warp &w, const Op &o, u32 count, bool write) {
    using A = Address<W>;
    const A *a = w.row<A>(o.a);
    same = a[0] == a[1];
    if (same ? !steps<0>(a) : count != 1 || !steps<Size>(a)) return false;
    const A add = static_cast<A>(o.imm), low = a[0] + add, high = a[kHalf] + add;
    const Stretch s = stretch_at<W>(w, o, low, write);
    const u32 bytes = Size * count, span = same ? bytes : bytes * kHalf;
    const u64 at = low - s.begin, at_high = high - s.begin, last = s.bytes - span;
    if (s.bytes < span || at > last || at_high > last || !is_aligned(low | high, bytes))
      return false;
    host[0] = s.host + at;
    host[1] = s.host + at_high;
    return true;
  }

 private:
  // Whether the addresses of each half grow by `Step` from lane to lane.
  template <u32 Step, class A>
  [[gnu::always_inline]] static bool steps(const A *a) {
    typedef A Part [[gnu::vector_size(32), gnu::may_alias]];  // NOLINT(modernize-use-using)
    constexpr u32 kLanesOfPart = sizeof(Part) / sizeof(A), kParts = kHalf / kLanesOfPart;
    Part growth{}, differs{};
    for (u32 i = 0; i < kLanesOfPart; ++i) growth[i] = i * Step;
    for (u32 h = 0; h < 2; ++h, a += kHalf) {
      Part expected = growth + a[0];
      for (u32 p = 0; p < kParts; ++p, expected += kLanesOfPart * Step)
        differs |= reinterpret_cast<const Part *>(a)[p] ^ expected;
    }
    return is_zero(differs);
  }
};

// Accesses of `bytes` bytes by the lanes of `m`.
template <Where W>
struct Each {
  // Shared memory has less than 4 GiB; local memory of all lanes may have more.
  using Offset = std::conditional_t<W == Where::Shared, u32, u64>;
  char *host;
  Offset offset[kLanes];  // lane i accesses host + offset[i]

  [[gnu::always_inline]] bool find(const Warp &w, const Op &o, Mask m, u32 bytes, bool write) {
    using A = Address<W>;
    const A *a = w.row<A>(o.a);
    const A add = static_cast<A>(o.imm);
    const Stretch s = stretch_at<W>(w, o, static_cast<A>(a[std::countr_zero(m)] + add), write);
    if (s.bytes < bytes) return false;
    host = s.host;
    // The highest bit of `beyond` tells whether an offset exceeds the last one: such an offset
    // either is so large that it has this bit itself, or makes the difference negative.
    const A begin = static_cast<A>(s.begin), last = static_cast<A>(s.bytes - bytes);
    A beyond = 0, low = 0;
    for_lanes(m, [&](u32 i) {
      A address = a[i] + add, at = address - begin;
      offset[i] = at + static_cast<Offset>(i * s.apart);
      beyond |= at | (last - at);
      low |= address;
    });
    return beyond >> (8 * sizeof(A) - 1) == 0 && is_aligned(low, bytes);
  }
};

}  // namespace ckpt::softcuda::isa::CKPT_ISA
