// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "libckpt-cuda/survey/looker.h"

namespace ckpt::cuda {
namespace {

using Lanes = std::array<u64, xxh3::kLanes>;

u64 word_at(const std::byte *p) {
  u64 word = 0;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// The sums of the stripes from `stripe` on, up to the end of its block.
Lanes sums_of(const std::byte *in, u32 stripe, u32 stripes, const u64 *secret) {
  Lanes sums{};
  u32 count = std::min(xxh3::kStripesPerBlock, stripes - stripe);
  for (u32 p = 0; p < xxh3::kPairs; ++p) {
    xxh3::Pair sum;
    for (u32 s = 0; s < count; ++s) {
      const std::byte *at = in + size_t{stripe + s} * xxh3::kStripeBytes + 16 * p;
      xxh3::add_stripe(sum, word_at(at), word_at(at + 8), secret[s + 2 * p], secret[s + 2 * p + 1]);
    }
    sums[2 * p] = sum.even;
    sums[2 * p + 1] = sum.odd;
  }
  return sums;
}

xxh3::Hash address_of(ByteView in, u64 seed) {
  std::array<u64, xxh3::kSecretWords> secret{};
  for (u32 i = 0; i < secret.size(); ++i) secret[i] = xxh3::secret_word(i, seed);
  Lanes state{}, last{};
  for (u32 lane = 0; lane < xxh3::kLanes; ++lane) state[lane] = xxh3::initial(lane);
  u32 bytes = static_cast<u32>(in.size()), stripes = xxh3::stripes_of(bytes);
  for (u32 stripe = 0; stripe < stripes; stripe += xxh3::kStripesPerBlock) {
    Lanes sums = sums_of(in.data(), stripe, stripes, secret.data());
    bool whole = stripe + xxh3::kStripesPerBlock <= stripes;
    for (u32 lane = 0; lane < xxh3::kLanes; ++lane) {
      state[lane] += sums[lane];
      if (whole) state[lane] = xxh3::scrambled(state[lane], lane, secret.data());
    }
  }
  std::memcpy(last.data(), in.data() + in.size() - xxh3::kStripeBytes, xxh3::kStripeBytes);
  return xxh3::finished(state.data(), last.data(), secret.data(), bytes);
}

}  // namespace

Result<std::vector<Seen>> HostLooker::look(std::span<const Chunk> chunks, u64 seed, bool hash) {
  std::vector<Seen> seen;
  for (const Chunk &c : chunks) {
    ByteView in(reinterpret_cast<const std::byte *>(c.at), c.bytes);
    Seen &s = seen.emplace_back(Seen{});
    s.zeros = std::ranges::all_of(in, [](std::byte b) { return b == std::byte{}; });
    if (hash && !s.zeros) s.address = address_of(in, seed);
  }
  return seen;
}

}  // namespace ckpt::cuda
