// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/copies/read_ahead.h"

#include <algorithm>
#include <cstring>

#include "remote/cuda/protocol.h"

namespace ckpt::remote::cuda {
namespace {

constexpr int kTimes = 2;            // so often a pair must have been read before
constexpr size_t kMostKnown = 1024;  // bounds the memory: with more, all are forgotten

}  // namespace

ReadAhead &read_ahead() {
  static ReadAhead *const kReadAhead = new ReadAhead;
  return *kReadAhead;
}

bool ReadAhead::take(const DeviceRange &r, u64 calls, void *to) {
  std::lock_guard lock(mutex_);
  bool directly = last_ && calls == calls_;
  note_order(r, directly);
  if (!directly) return false;
  size_t at = 0;
  for (const DeviceRange &kept : ranges_) {
    if (kept == r) {
      std::memcpy(to, bytes_.data() + at, r.bytes);
      return true;
    }
    at += kept.bytes;
  }
  return false;
}

void ReadAhead::note_order(const DeviceRange &r, bool directly) {
  if (next_.size() > kMostKnown) next_.clear();
  if (last_ && !directly) next_.erase(*last_);
  if (directly) {
    Next &n = next_.try_emplace(*last_, Next{r, 0}).first->second;
    n = n.range == r ? Next{r, n.times + 1} : Next{r, 1};
  }
  last_ = r;
}

std::vector<DeviceRange> ReadAhead::behind(const DeviceRange &r) const {
  std::lock_guard lock(mutex_);
  std::vector<DeviceRange> all;
  u64 bytes = 0;
  for (auto next = next_.find(r); all.size() < kMostAlong; next = next_.find(all.back())) {
    if (next == next_.end() || next->second.times < kTimes) break;
    const DeviceRange &n = next->second.range;
    bytes += n.bytes;
    if (n == r || bytes > kMostAlongBytes || std::ranges::find(all, n) != all.end()) break;
    all.push_back(n);
  }
  return all;
}

void ReadAhead::keep(u64 calls, std::vector<DeviceRange> ranges, Bytes bytes) {
  u64 all = 0;
  for (const DeviceRange &r : ranges) all += r.bytes;
  std::lock_guard lock(mutex_);
  calls_ = calls;
  bool complete = bytes.size() == all;
  ranges_ = complete ? std::move(ranges) : std::vector<DeviceRange>();
  bytes_ = complete ? std::move(bytes) : Bytes();
}

}  // namespace ckpt::remote::cuda
