// SPDX-License-Identifier: Apache-2.0
//
// XXH3-128 (docs/FORMAT.md: a chunk's address) in parts that can be computed at the same time.
//
// The problem. xxHash goes through its input from the beginning to the end, 64 bytes at a time: one
// thread of a device, which has a hundred thousand, would have to read a whole chunk of 1 MiB.
//
// The observation. Eight accumulators of 64 bits hold the state. Within a block of 1,024 bytes each
// of them is only added to, and what is added depends on the input and the secret, not on the
// state. Only between two blocks the state is scrambled, which is one multiplication for each
// accumulator:
//
//   input      | block 0: 16 stripes | block 1 | block 2 | … | last stripe |
//   sums          S0                    S1        S2                          computed all at once
//   state      init + S0 → scramble → + S1 → scramble → + S2 → …              8 lanes, step by step
//
// The sums are all of the work that touches memory. A pair of accumulators (2p, 2p + 1) needs the
// 16 bytes at 16p of each stripe, because the input of one is added to the other, so one thread
// computes one pair of one block without hearing of any other thread.
//
// Cost, for each 16 bytes: two multiplications of 32 by 32 bits, and six additions or exclusive
// ors.
//
// Source. The xxHash specification, doc/xxhash_spec.md of Cyan4973/xxHash, "XXH3 algorithm
// (large inputs)"; to compute blocks at the same time is our own. tests/unit/cuda/survey_test.cc
// compares it with the library.
//
// Included by g++ and by nvcc, for the device, too: plain C++17, and no other header of ours.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CKPT_BOTH __host__ __device__ inline
#else
#define CKPT_BOTH inline
#endif

namespace ckpt::cuda::xxh3 {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kStripeBytes = 64, kStripesPerBlock = 16, kBlockBytes = 1024, kLanes = 8, kPairs = 4;
// Shorter inputs have algorithms of their own, which are not here.
constexpr u32 kLeastBytes = 241;
constexpr u32 kSecretWords = 24;

// The first 192 bytes of XXH3's default secret, as little-endian words.
struct DefaultSecret {
  u64 words[kSecretWords] = {
      0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
      0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
      0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
      0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
      0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
      0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};
};

// Word i of the secret that belongs to `seed`.
CKPT_BOTH u64 secret_word(u32 i, u64 seed) {
  DefaultSecret all;
  return i % 2 == 0 ? all.words[i] + seed : all.words[i] - seed;
}

// Eight bytes of the secret from any byte on.
CKPT_BOTH u64 secret_at(const u64 *secret, u32 byte) {
  u32 word = byte / 8, shift = byte % 8 * 8;
  return shift == 0 ? secret[word] : secret[word] >> shift | secret[word + 1] << (64 - shift);
}

constexpr u64 kPrime32_1 = 0x9e3779b1, kPrime32_2 = 0x85ebca77, kPrime32_3 = 0xc2b2ae3d;
constexpr u64 kPrime64_1 = 0x9e3779b185ebca87, kPrime64_2 = 0xc2b2ae3d27d4eb4f,
              kPrime64_3 = 0x165667b19e3779f9, kPrime64_4 = 0x85ebca77c2b2ae63,
              kPrime64_5 = 0x27d4eb2f165667c5;

// What accumulator `lane` begins with.
CKPT_BOTH u64 initial(u32 lane) {
  const u64 all[kLanes] = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                           kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
  return all[lane];
}

// The stripes of an input that belong to blocks; the last 64 bytes are one more stripe.
CKPT_BOTH u32 stripes_of(u32 bytes) { return (bytes - 1) / kStripeBytes; }

struct Pair {
  u64 even = 0, odd = 0;  // of accumulators 2p and 2p + 1
};

// The two words of the input at a pair's place in a stripe, and of the secret there.
CKPT_BOTH void add_stripe(Pair &sum, u64 even, u64 odd, u64 secret_even, u64 secret_odd) {
  u64 a = even ^ secret_even, b = odd ^ secret_odd;
  sum.even += odd + (a & 0xffffffff) * (a >> 32);
  sum.odd += even + (b & 0xffffffff) * (b >> 32);
}

// Of accumulator `lane`, between two blocks.
CKPT_BOTH u64 scrambled(u64 accumulator, u32 lane, const u64 *secret) {
  accumulator ^= accumulator >> 47;
  return (accumulator ^ secret[kSecretWords - kLanes + lane]) * kPrime32_1;
}

// The exclusive or of both halves of the product.
CKPT_BOTH u64 folded_product(u64 a, u64 b) {
#ifdef __CUDA_ARCH__
  return a * b ^ __umul64hi(a, b);
#else
  __extension__ using u128 = unsigned __int128;
  u128 product = static_cast<u128>(a) * b;
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
#endif
}

CKPT_BOTH u64 merged(const u64 *accumulators, const u64 *secret, u32 secret_byte, u64 start) {
  u64 h = start;
  for (u32 p = 0; p < kPairs; ++p)
    h += folded_product(accumulators[2 * p] ^ secret_at(secret, secret_byte + 16 * p),
                        accumulators[2 * p + 1] ^ secret_at(secret, secret_byte + 16 * p + 8));
  h ^= h >> 37;
  h *= 0x165667919e3779f9;
  return h ^ h >> 32;
}

struct Hash {
  u64 low = 0, high = 0;
};

// `accumulators` after all blocks, which this changes; `last`: the last 64 bytes of the input.
CKPT_BOTH Hash finished(u64 *accumulators, const u64 *last, const u64 *secret, u32 bytes) {
  constexpr u32 kLastStripe = 8 * kSecretWords - kStripeBytes - 7;
  for (u32 p = 0; p < kPairs; ++p) {
    Pair sum;
    add_stripe(sum, last[2 * p], last[2 * p + 1], secret_at(secret, kLastStripe + 16 * p),
               secret_at(secret, kLastStripe + 16 * p + 8));
    accumulators[2 * p] += sum.even;
    accumulators[2 * p + 1] += sum.odd;
  }
  constexpr u32 kLow = 11, kHigh = 8 * kSecretWords - kStripeBytes - 11;
  return {merged(accumulators, secret, kLow, bytes * kPrime64_1),
          merged(accumulators, secret, kHigh, ~(bytes * kPrime64_2))};
}

}  // namespace ckpt::cuda::xxh3
