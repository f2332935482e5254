// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/host_pages.h"

#include <sys/mman.h>

#include <algorithm>

#include "common/base/rounded_up.h"

namespace ckpt::cuda {
namespace {

// What a fault copies. Of a block of small allocations it is less, since a program that uses one
// number in turns with the device would wait for the rest. Of large blocks it is more, because
// neighbouring parts with different access are mappings of their own, and a process has 65,530
// (vm.max_map_count).
constexpr u64 kPartBytes = 2u << 20;
constexpr u64 kPartBytesOfSmall = 64u << 10;
constexpr u64 kMostParts = 2048;

u64 part_bytes(u64 block) {
  if (block <= kPartBytes) return kPartBytesOfSmall;
  return rounded_up(std::max(kPartBytes, block / kMostParts), kPartBytes);
}

void *pointer(u64 address) { return reinterpret_cast<void *>(address); }

int access_of(Holder holder) {
  switch (holder) {
    case Holder::Device: return PROT_NONE;
    case Holder::Both: return PROT_READ;
    case Holder::Host: return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

// As a driver reserves addresses: without memory, and without access.
void reserve_again(u64 at, u64 bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  (void)::mmap(pointer(at), bytes, PROT_NONE, kFlags, -1, 0);
}

}  // namespace

HostPages::HostPages(u64 base, u64 bytes, std::byte *alias)
    : base_(base),
      bytes_(bytes),
      part_bytes_(part_bytes(bytes)),
      alias_(alias),
      holders_(rounded_up(bytes, part_bytes_) / part_bytes_, Holder::Both) {}

std::unique_ptr<HostPages> HostPages::make(u64 base, u64 bytes) {
  constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
  void *alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (alias == MAP_FAILED) return nullptr;
  ::madvise(alias, bytes, MADV_DONTFORK);
  std::unique_ptr<HostPages> pages(new HostPages(base, bytes, static_cast<std::byte *>(alias)));
  return pages->show() ? std::move(pages) : nullptr;
}

HostPages::~HostPages() {
  hide();
  ::munmap(alias_, bytes_);
}

u64 HostPages::end_of(size_t part) const {
  return std::min(begin_of(part) + part_bytes_, base_ + bytes_);
}

bool HostPages::set_access(size_t first, size_t end, Holder holder) {
  u64 begin = begin_of(first);
  return !shown_ || ::mprotect(pointer(begin), end_of(end - 1) - begin, access_of(holder)) == 0;
}

bool HostPages::hold(size_t first, size_t end, Holder holder) {
  if (!set_access(first, end, holder)) return false;
  std::fill(holders_.begin() + static_cast<i64>(first), holders_.begin() + static_cast<i64>(end),
            holder);
  return true;
}

bool HostPages::close(size_t first, size_t end) { return set_access(first, end, Holder::Device); }

void HostPages::hide() {
  if (shown_) reserve_again(base_, bytes_);
  shown_ = false;
  for (size_t part = 0; part < parts(); part++)
    if (holder(part) == Holder::Device)
      ::madvise(alias(begin_of(part)), end_of(part) - begin_of(part), MADV_REMOVE);
}

// mremap(2): "If the value of old_size is zero, and old_address refers to a shareable mapping, then
// mremap() will create a new mapping of the same pages." It has the access of the old one: none, so
// that no thread of the program sees what the device holds.
bool HostPages::show() {
  if (shown_) return true;
  if (::mprotect(alias_, bytes_, PROT_NONE) != 0) return false;
  void *at = ::mremap(alias_, 0, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(base_));
  (void)::mprotect(alias_, bytes_, PROT_READ | PROT_WRITE);
  if (at != pointer(base_)) return false;
  shown_ = true;
  ::madvise(at, bytes_, MADV_DONTFORK);
  for (size_t part = 0; part < parts();) {
    size_t end = part + 1;
    while (end < parts() && holder(end) == holder(part)) end++;
    if (!set_access(part, end, holder(part))) {
      hide();
      return false;
    }
    part = end;
  }
  return true;
}

}  // namespace ckpt::cuda
