// SPDX-License-Identifier: Apache-2.0
//
// Device memory that several processes map.
//
// Device memory is private memory until it is exported for the first time. Then its granules move
// into a file in memory, which the broker passes to other processes. So a program that shares
// nothing pays nothing for it. The file is sealed against another size, so that no mapping of it
// can fault.
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "common/ipc/shared_memory.h"
#include "softcuda/device/sealed.h"
#include "softcuda/device/windows.h"

namespace ckpt::softcuda {
namespace {

constexpr u64 kChunk = 4096;

// What was never written needs no pages in the copy, either.
void copy_without_zeros(char *to, const char *from, u64 bytes) {
  static constexpr char kZero[kChunk] = {};
  for (u64 at = 0; at < bytes; at += kChunk)
    if (std::memcmp(from + at, kZero, kChunk) != 0) std::memcpy(to + at, from + at, kChunk);
}

}  // namespace

bool Memory::map_file(u64 base, u64 bytes, int memory_fd) {
  void *p = mmap(pointer(base + distance_), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 memory_fd, 0);
  if (p == MAP_FAILED) return false;
  madvise(p, bytes, MADV_HUGEPAGE);  // a device's memory needs no page faults
  return true;
}

bool Memory::move_into_file(u64 base, u64 bytes) {
  Result<UniqueFd> fd = make_memfd("softcuda", bytes);
  Result<Mapping> copy = fd ? Mapping::map(fd->get(), bytes) : Result<Mapping>(Failure(fd.error()));
  if (!copy) return false;
  copy_without_zeros(reinterpret_cast<char *>(copy->data()),
                     static_cast<const char *>(pointer(base + distance_)), bytes);
  if (!map_file(base, bytes, fd->get())) return false;
  files_[base] = std::move(*fd);
  return true;
}

Result<std::pair<UniqueFd, SharedPart>> Memory::share(u64 base) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(base);
  if (it == allocations_.end() || it->second.kind != MemoryKind::Device || it->second.exported)
    return fail("there is no device memory to share");
  Allocation &a = it->second;
  bool small = a.reserved < kGranuleBytes;
  u64 first = small ? small_.block_of(base) : base;
  u64 bytes = small ? kGranuleBytes : a.reserved;
  if (!files_.contains(first) && !move_into_file(first, bytes))
    return fail_errno("cannot share {} bytes of device memory", bytes);
  UniqueFd fd(fcntl(files_[first].get(), F_DUPFD_CLOEXEC, 0));
  // Other memory in the same granule may be shared later; that of a large allocation is whole.
  if (!small) files_.erase(first);
  if (!fd) return fail_errno("cannot share {} bytes of device memory", bytes);
  a.exported = true;
  return std::pair(std::move(fd), SharedPart{bytes, base - first, a.bytes, a.reserved});
}

std::optional<Allocation> Memory::import(int memory_fd, const SharedPart &part, u32 device,
                                         void *context) {
  struct stat file {};
  bool sane = part.file_bytes > 0 && part.file_bytes <= kWindowBytes &&
              part.file_bytes % kGranuleBytes == 0 && part.offset % api::kGrainBytes == 0 &&
              part.offset < part.file_bytes && part.reserved <= part.file_bytes - part.offset &&
              part.bytes > 0 && part.bytes <= part.reserved;
  if (!sane || fstat(memory_fd, &file) != 0 || !is_sealed(memory_fd) ||
      static_cast<u64>(file.st_size) != part.file_bytes)
    return {};
  std::unique_lock lock(mutex_);
  std::optional<u64> at = open_window() ? free_.take(part.file_bytes, kGranuleBytes) : std::nullopt;
  if (!at) return {};
  if (!map_file(*at, part.file_bytes, memory_fd)) {
    free_.give(*at, part.file_bytes);
    return {};
  }
  Allocation a;
  a.base = *at + part.offset;
  a.bytes = part.bytes;
  a.reserved = part.reserved;
  a.kind = MemoryKind::Imported;
  a.device = device;
  a.host = a.base + distance_;
  a.context = context;
  imported_[a.base] = {*at, part.file_bytes};
  return add(a);
}

}  // namespace ckpt::softcuda
