// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/survey/survey.h"

#include <algorithm>
#include <map>

#include "agent/participant/participant.h"
#include "common/base/log.h"

namespace ckpt::cuda {
namespace {

// The contents on one device, by their numbers.
using OfDevice = std::vector<size_t>;

std::vector<Chunk> chunks_of(const Contents &c) {
  std::vector<Chunk> chunks;
  for (u64 at = 0; at < c.bytes; at += agent::kChunkBytes) {
    u32 bytes = static_cast<u32>(std::min<u64>(agent::kChunkBytes, c.bytes - at));
    if (bytes >= xxh3::kLeastBytes) chunks.push_back({c.base + at, bytes, 0});
  }
  return chunks;
}

// Any context of a device can read all of its memory.
Result<> look_on_device(const std::vector<Contents> &all, const OfDevice &numbers, Looker &looker,
                        u64 seed, bool hash, Survey &survey) {
  std::vector<Chunk> chunks;
  std::vector<size_t> counts;
  for (size_t i : numbers) {
    std::vector<Chunk> more = chunks_of(all[i]);
    counts.push_back(more.size());
    chunks.insert(chunks.end(), more.begin(), more.end());
  }
  CKPT_TRY(std::vector<Seen> seen, looker.look(chunks, seed, hash));
  auto next = seen.begin();
  for (size_t n = 0; n < numbers.size(); ++n) {
    auto end = next + static_cast<std::ptrdiff_t>(counts[n]);
    survey.seen[numbers[n]].assign(next, end);
    next = end;
  }
  return {};
}

}  // namespace

Survey look_at(const std::vector<Contents> &all, u64 seed, bool hash, const MakeLooker &make) {
  Survey survey;
  survey.seen.resize(all.size());
  std::map<CUdevice, OfDevice> devices;
  for (size_t i = 0; i < all.size(); ++i) devices[all[i].device].push_back(i);
  for (auto &[device, numbers] : devices) {
    std::unique_ptr<Looker> looker = make(all[numbers.front()].context);
    Result<> looked = look_on_device(all, numbers, *looker, seed, hash, survey);
    if (looked) continue;
    survey.not_looked.push_back(fmt::format("device {}: {}", device, looked.error().what));
    log::info("all memory of CUDA {} is read", survey.not_looked.back());
  }
  return survey;
}

}  // namespace ckpt::cuda
