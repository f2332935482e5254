// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/mirrors.h"

#include <algorithm>
#include <iterator>

#include "remote/cuda/changes.h"
#include "remote/cuda/protocol.h"

namespace ckpt::remote::cuda {
namespace {

// Neighbouring ranges are read by one copy: a program may have thousands of small ones.
constexpr u64 kNearBytes = 4096;
constexpr u64 kFlagBytes = 8;

}  // namespace

CUresult Mirrors::begin(u64 context, u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  auto next = all_.lower_bound(base);
  bool again = next != all_.end() && next->first == base && next->second.bytes() == bytes;
  bool taken = !again && next != all_.end() && next->first - base < bytes;
  if (next != all_.begin())
    taken |= std::prev(next)->first + std::prev(next)->second.bytes() > base;
  if (taken) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (CUresult e = streams_.find(context, stream); e != CUDA_SUCCESS) return e;
  ZeroPages zeros(bytes);
  if (!zeros.data()) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = driver().cuMemsetD2D8Async(base, bytes, 0, bytes, 1, stream);
  if (e == CUDA_SUCCESS) e = driver().cuStreamSynchronize(stream);
  if (e == CUDA_SUCCESS) all_[base] = std::move(zeros);
  return e;
}

void Mirrors::end(u64 base) {
  std::lock_guard lock(mutex_);
  all_.erase(base);
}

void Mirrors::end_within(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const auto &m) { return m.first >= base && m.first - base < bytes; });
}

std::byte *Mirrors::copy_of(u64 address, u64 bytes) {
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return nullptr;
  auto &[base, copy] = *std::prev(next);
  u64 at = address - base;
  return at < copy.bytes() && bytes <= copy.bytes() - at ? copy.data() + at : nullptr;
}

// Flags last: a kernel may wait for one, and then read the rest.
CUresult Mirrors::write(u64 context, std::span<Range> ranges) {
  std::lock_guard lock(mutex_);
  CUstream stream = nullptr;
  CUresult e = streams_.find(context, stream);
  auto is_large = [](const Range &r) { return r.bytes.size() > kFlagBytes; };
  std::stable_partition(ranges.begin(), ranges.end(), is_large);
  for (const Range &r : ranges) {
    std::byte *copy = copy_of(r.address, r.bytes.size());
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(copy, r.bytes.data(), r.bytes.size());
    if (e == CUDA_SUCCESS)
      e = driver().cuMemcpyHtoDAsync_v2(r.address, copy, r.bytes.size(), stream);
  }
  return e == CUDA_SUCCESS ? driver().cuStreamSynchronize(stream) : e;
}

// The ranges from `first` to `last` lie close together.
CUresult Mirrors::read_together(CUstream stream, u64 first, u64 last, u64 gap,
                                const Changed &changed) {
  u64 end = last + all_[last].bytes();
  thread_local Bytes now;
  for (u64 at = first; at < end; at += kPieceBytes) {
    now.resize(std::min(kPieceBytes, end - at));
    CUresult e = driver().cuMemcpyDtoHAsync_v2(now.data(), at, now.size(), stream);
    if (e == CUDA_SUCCESS) e = driver().cuStreamSynchronize(stream);
    if (e != CUDA_SUCCESS) return e;
    for (auto r = std::prev(all_.upper_bound(at)); r != all_.end() && r->first < at + now.size();
         ++r) {
      u64 from = std::max(at, r->first);
      u64 to = std::min(at + now.size(), r->first + r->second.bytes());
      if (from >= to) continue;
      std::byte *then = r->second.data() + (from - r->first);
      const std::byte *here = now.data() + (from - at);
      for_each_change(here, then, to - from, gap, [&](u64 offset, u64 n) {
        std::memcpy(then + offset, here + offset, n);
        changed(from + offset, view(here + offset, n));
      });
    }
  }
  return CUDA_SUCCESS;
}

CUresult Mirrors::read(u64 context, u64 gap, const Changed &changed) {
  std::lock_guard lock(mutex_);
  CUstream stream = nullptr;
  CUresult e = streams_.find(context, stream);
  for (auto i = all_.begin(); i != all_.end() && e == CUDA_SUCCESS;) {
    auto first = i, last = i;
    while (++i != all_.end() && i->first - (last->first + last->second.bytes()) <= kNearBytes &&
           i->first + i->second.bytes() - first->first <= kPieceBytes)
      last = i;
    e = read_together(stream, first->first, last->first, gap, changed);
  }
  return e;
}

}  // namespace ckpt::remote::cuda
