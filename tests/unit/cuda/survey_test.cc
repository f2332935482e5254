// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/survey/survey.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <random>

#include "agent/participant/participant.h"

using namespace ckpt;
using namespace ckpt::cuda;

namespace {

std::vector<std::byte> random_bytes(size_t count, u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte &b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Chunk chunk_of(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<u64>(bytes.data()), static_cast<u32>(bytes.size()), 0};
}

Seen look(const std::vector<std::byte> &bytes, u64 seed, bool hash = true) {
  Chunk chunk = chunk_of(bytes);
  Result<std::vector<Seen>> seen = HostLooker().look({&chunk, 1}, seed, hash);
  REQUIRE(seen);
  REQUIRE(seen->size() == 1);
  return seen->front();
}

void check_address(size_t count, u64 seed) {
  std::vector<std::byte> bytes = random_bytes(count, count ^ seed);
  XXH128_hash_t right = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  Seen seen = look(bytes, seed);
  CAPTURE(count);
  CAPTURE(seed);
  CHECK(seen.zeros == 0);
  CHECK(seen.address.low == right.low64);
  CHECK(seen.address.high == right.high64);
}

Contents contents_of(const std::vector<std::byte> &bytes, CUdevice device) {
  return {"mem", reinterpret_cast<u64>(bytes.data()), bytes.size(), nullptr, device};
}

class NoLooker : public Looker {
 public:
  Result<std::vector<Seen>> look(std::span<const Chunk>, u64, bool) override {
    return fail("no code for it");
  }
};

}  // namespace

TEST_CASE("the parallel address is XXH3-128's, for many seeds and lengths") {
  std::mt19937_64 random(1);
  for (u64 seed : {u64{0}, u64{1}, ~u64{0}})
    for (size_t bytes :
         {241, 255, 256, 257, 1023, 1024, 1025, 1087, 1088, 1089, 2048, 65536, 1048575, 1048576})
      check_address(bytes, seed);
  for (int i = 0; i < 200; ++i) check_address(241 + random() % 20'000, random());
}

TEST_CASE("zeros are recognised, and one byte anywhere is seen") {
  for (size_t count : {241, 1024, 5000}) {
    std::vector<std::byte> bytes(count);
    CHECK(look(bytes, 7).zeros == 1);
    CHECK(look(bytes, 7, false).zeros == 1);
    for (size_t at : {size_t{0}, count / 2, count - 1}) {
      std::vector<std::byte> other = bytes;
      other[at] = std::byte{1};
      CHECK(look(other, 7).zeros == 0);
      CHECK(look(other, 7, false).zeros == 0);
    }
  }
}

TEST_CASE("a survey finds each chunk of the contents of all devices") {
  constexpr size_t kTail = 300;
  std::vector<std::byte> a = random_bytes(2 * agent::kChunkBytes + kTail, 1),
                         b(agent::kChunkBytes + 100), c = random_bytes(512, 3);
  std::vector<Contents> all{contents_of(a, 0), contents_of(b, 1), contents_of(c, 0)};
  auto host = [](CUcontext) { return std::make_unique<HostLooker>(); };
  Survey survey = look_at(all, 5, true, host);
  CHECK(survey.not_looked.empty());
  REQUIRE(survey.seen[0].size() == 3);
  for (u64 i = 0; i < 3; ++i) {
    const std::byte *at = a.data() + i * agent::kChunkBytes;
    XXH128_hash_t right = XXH3_128bits_withSeed(at, i < 2 ? agent::kChunkBytes : kTail, 5);
    CHECK(survey.at(0, i)->address.low == right.low64);
  }
  // The tail of 100 bytes is too short to be looked at.
  CHECK(survey.at(1, 0)->zeros == 1);
  CHECK(survey.at(1, 1) == nullptr);
  CHECK(survey.at(2, 0)->address.high == XXH3_128bits_withSeed(c.data(), 512, 5).high64);
}

TEST_CASE("a device that cannot look is named, and the others look") {
  std::vector<std::byte> a(agent::kChunkBytes), b(agent::kChunkBytes);
  std::vector<Contents> all{contents_of(a, 0), contents_of(b, 1)};
  int made = 0;
  Survey survey = look_at(all, 5, true, [&](CUcontext) -> std::unique_ptr<Looker> {
    if (made++ == 0) return std::make_unique<NoLooker>();
    return std::make_unique<HostLooker>();
  });
  CHECK(survey.not_looked == std::vector<std::string>{"device 0: no code for it"});
  CHECK(survey.at(0, 0) == nullptr);
  CHECK(survey.at(1, 0)->zeros == 1);
}
