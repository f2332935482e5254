// SPDX-License-Identifier: Apache-2.0
//
// The kernel that looks at chunks of device memory (survey.h); xxh3.h has the essay. A block of
// threads takes chunk after chunk. It goes through a chunk in tiles of 64 KiB: each thread computes
// one pair of sums of one block of 1,024 bytes, and then eight threads add the sums of the tile to
// the state, while other blocks of threads of the same multiprocessor read memory.
#include "libckpt-cuda/survey/look.h"

namespace {

using namespace ckpt::cuda;
using xxh3::u32;
using xxh3::u64;

constexpr u32 kThreads = 256, kBlocksInTile = kThreads / xxh3::kPairs;

struct Shared {
  u64 secret[xxh3::kSecretWords];
  u64 sums[kBlocksInTile][xxh3::kLanes];
  u64 accumulators[xxh3::kLanes];
  u64 last[xxh3::kLanes];
};

// Computes this thread's pair, of its block of the tile that begins with block `first`. Returns a
// word that is 0 only if all of that input is.
__device__ u64 sum_pair(const Chunk &chunk, u32 first, bool hash, Shared &shared) {
  u32 block = threadIdx.x / xxh3::kPairs, p = threadIdx.x % xxh3::kPairs;
  u32 stripes = xxh3::stripes_of(chunk.bytes), done = (first + block) * xxh3::kStripesPerBlock;
  u32 mine = done >= stripes ? 0 : min(xxh3::kStripesPerBlock, stripes - done);
  auto *in = reinterpret_cast<const ulonglong2 *>(chunk.at) + done * xxh3::kPairs + p;
  u64 bits = 0;
  xxh3::Pair sum;
#pragma unroll 4
  for (u32 s = 0; s < mine; ++s) {
    ulonglong2 words = in[s * xxh3::kPairs];
    bits |= words.x | words.y;
    if (hash)
      xxh3::add_stripe(sum, words.x, words.y, shared.secret[s + 2 * p],
                       shared.secret[s + 2 * p + 1]);
  }
  shared.sums[block][2 * p] = sum.even;
  shared.sums[block][2 * p + 1] = sum.odd;
  return bits;
}

// The state of one accumulator after the tile.
__device__ u64 advanced(u64 accumulator, u32 bytes, u32 first, const Shared &shared) {
  u32 whole = xxh3::stripes_of(bytes) / xxh3::kStripesPerBlock;
  u32 blocks = xxh3::stripes_of(bytes) % xxh3::kStripesPerBlock ? whole + 1 : whole;
  u32 end = min(first + kBlocksInTile, blocks);
  for (u32 b = first; b < end; ++b) {
    accumulator += shared.sums[b - first][threadIdx.x];
    if (b < whole) accumulator = xxh3::scrambled(accumulator, threadIdx.x, shared.secret);
  }
  return accumulator;
}

// One word of the last stripe, which need not be aligned.
__device__ u64 last_word(const Chunk &chunk) {
  auto *in = reinterpret_cast<const unsigned char *>(chunk.at) + chunk.bytes - xxh3::kStripeBytes +
             8 * threadIdx.x;
  u64 word = 0;
  for (u32 i = 0; i < 8; ++i) word |= static_cast<u64>(in[i]) << (8 * i);
  return word;
}

__device__ void look(const Chunk &chunk, bool hash, Shared &shared, Seen &seen) {
  u64 bits = 0, accumulator = threadIdx.x < xxh3::kLanes ? xxh3::initial(threadIdx.x) : 0;
  for (u32 first = 0; first * xxh3::kBlockBytes < chunk.bytes; first += kBlocksInTile) {
    bits |= sum_pair(chunk, first, hash, shared);
    __syncthreads();
    if (hash && threadIdx.x < xxh3::kLanes)
      accumulator = advanced(accumulator, chunk.bytes, first, shared);
    __syncthreads();
  }
  if (threadIdx.x < xxh3::kLanes) {
    shared.accumulators[threadIdx.x] = accumulator;
    bits |= shared.last[threadIdx.x] = last_word(chunk);
  }
  bool zeros = __syncthreads_or(bits != 0) == 0;
  if (threadIdx.x != 0) return;
  seen.zeros = zeros;
  if (hash && !zeros)
    seen.address = xxh3::finished(shared.accumulators, shared.last, shared.secret, chunk.bytes);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    ckpt_look(const Chunk *chunks, u32 count, u64 seed, u32 hash, Seen *seen) {
  __shared__ Shared shared;
  if (threadIdx.x < xxh3::kSecretWords)
    shared.secret[threadIdx.x] = xxh3::secret_word(threadIdx.x, seed);
  __syncthreads();
  for (u32 c = blockIdx.x; c < count; c += gridDim.x) {
    look(chunks[c], hash != 0, shared, seen[c]);
    __syncthreads();
  }
}
