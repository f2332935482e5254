// SPDX-License-Identifier: Apache-2.0
#include "softcuda/device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/huge_pages.h"
#include "common/base/rounded_up.h"
#include "softcuda/device/windows.h"

namespace ckpt::softcuda {
namespace {

constexpr u64 kAliasHint = 0x3000'0000'0000;
constexpr u64 kPage = 4096;

u64 map_window(u64 hint) {
  void *p = mmap(pointer(hint), kWindowBytes + kGranuleBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? 0 : rounded_up(reinterpret_cast<u64>(p), kGranuleBytes);
}

void unmap_window(u64 at) {
  if (at != 0) munmap(pointer(at), kWindowBytes);
}

}  // namespace

Memory::~Memory() {
  if (window_ == 0) return;
  for (u64 at : {window_, window_ + distance_}) unmap_window(at);
}

bool Memory::open_window() {
  if (window_ != 0) return true;
  u64 window = map_window(first_address_), alias = map_window(kAliasHint);
  if (window == 0 || alias == 0) {
    for (u64 at : {window, alias}) unmap_window(at);
    return false;
  }
  window_ = window;
  distance_ = alias - window;
  free_ = Spans(window, kWindowBytes);
  return true;
}

bool Memory::commit(u64 base, u64 bytes) {
  return mmap(pointer(base + distance_), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void Memory::decommit(u64 base, u64 bytes) {
  u64 host = base + distance_;
  populated_.forget(host / kGranuleBytes, (host + bytes) / kGranuleBytes);
  (void)map_without_access(base + distance_, bytes, MAP_FIXED | MAP_NORESERVE);
}

std::optional<u64> Memory::take_granules(u32 device, u64 bytes) {
  if (!budget_.take(device, bytes)) return {};
  std::optional<u64> base = open_window() ? free_.take(bytes, kGranuleBytes) : std::nullopt;
  if (base && commit(*base, bytes)) return base;
  if (base) free_.give(*base, bytes);
  budget_.give(device, bytes);
  return {};
}

void Memory::give_granules(u32 device, u64 base, u64 bytes) {
  decommit(base, bytes);
  files_.erase(base);
  free_.give(base, bytes);
  budget_.give(device, bytes);
}

std::optional<u64> Memory::take_small(u32 device, u64 bytes) {
  if (auto piece = small_.take(device, bytes)) return piece->base;
  std::optional<u64> base = take_granules(device, kGranuleBytes);
  if (base) small_.add(device, *base, kGranuleBytes, bytes);
  return base;
}

void Memory::give_small(const Allocation &a) {
  u64 granule = small_.block_of(a.base);
  if (!small_.give(granule, a.base, a.reserved)) return;
  small_.remove(granule);
  give_granules(a.device, granule, kGranuleBytes);
}

Allocation &Memory::add(Allocation a) {
  a.id = next_id_++;
  return allocations_[a.base] = a;
}

std::optional<Allocation> Memory::allocate(u32 device, u64 bytes, MemoryKind kind, void *context) {
  if (bytes == 0 || bytes > kWindowBytes) return {};
  std::unique_lock lock(mutex_);
  u64 reserved = api::reserved_bytes(bytes, kGranuleBytes);
  std::optional<u64> base = api::is_small(bytes, kGranuleBytes) ? take_small(device, reserved)
                                                                : take_granules(device, reserved);
  if (!base) return {};
  Allocation a;
  a.base = *base;
  a.bytes = bytes;
  a.reserved = reserved;
  a.kind = kind;
  a.device = device;
  a.host = *base + distance_;
  a.context = context;
  return add(a);
}

std::optional<Allocation> Memory::allocate_host(u64 bytes, MemoryKind kind, u32 device,
                                                unsigned flags, void *context) {
  if (bytes == 0 || bytes > kWindowBytes) return {};
  std::unique_lock lock(mutex_);
  u64 reserved = rounded_up(bytes, kPage);
  bool managed = kind == MemoryKind::Managed;
  if (managed && !budget_.take(device, reserved)) return {};
  void *p = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    if (managed) budget_.give(device, reserved);
    return {};
  }
  Allocation a;
  a.base = a.host = reinterpret_cast<u64>(p);
  a.bytes = bytes;
  a.reserved = reserved;
  a.kind = kind;
  a.device = device;
  a.flags = flags;
  a.context = context;
  return add(a);
}

bool Memory::register_host(u64 base, u64 bytes, unsigned flags, void *context) {
  std::unique_lock lock(mutex_);
  auto next = allocations_.lower_bound(base);
  if (next != allocations_.end() && next->first < base + bytes) return false;
  if (next != allocations_.begin()) {
    const Allocation &before = std::prev(next)->second;
    if (before.base + before.reserved > base) return false;
  }
  Allocation a;
  a.base = a.host = base;
  a.bytes = a.reserved = bytes;
  a.kind = MemoryKind::Registered;
  a.flags = flags;
  a.context = context;
  add(a);
  return true;
}

void Memory::release_locked(const Allocation &a) {
  switch (a.kind) {
    case MemoryKind::Registered: break;
    case MemoryKind::Managed: budget_.give(a.device, a.reserved); [[fallthrough]];
    case MemoryKind::Pinned: munmap(pointer(a.host), a.reserved); break;
    case MemoryKind::Mapping: decommit(a.base, a.reserved); break;
    case MemoryKind::Imported: {
      auto [begin, bytes] = imported_.extract(a.base).mapped();
      decommit(begin, bytes);
      free_.give(begin, bytes);
      break;
    }
    default:
      if (a.exported) on_release_of_exported(a.id);
      if (a.reserved < kGranuleBytes)
        give_small(a);
      else
        give_granules(a.device, a.base, a.reserved);
  }
}

bool Memory::release(u64 base, MemoryKind kind) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(base);
  if (it == allocations_.end() || it->second.kind != kind) return false;
  release_locked(it->second);
  allocations_.erase(it);
  return true;
}

void Memory::release_all(void *context) {
  std::unique_lock lock(mutex_);
  for (auto it = allocations_.begin(); it != allocations_.end();) {
    if (it->second.context == context && it->second.kind != MemoryKind::Mapping) {
      release_locked(it->second);
      it = allocations_.erase(it);
    } else {
      ++it;
    }
  }
}

std::optional<Allocation> Memory::find(u64 address) const {
  std::shared_lock lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return {};
  const Allocation &a = std::prev(it)->second;
  if (address - a.base >= a.reserved) return {};
  return a;
}

std::vector<Allocation> Memory::all() const {
  std::shared_lock lock(mutex_);
  std::vector<Allocation> list;
  for (const auto &[base, a] : allocations_) list.push_back(a);
  return list;
}

char *Memory::host(u64 address, u64 bytes) const {
  std::shared_lock lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  const Allocation &first = it->second;
  if (address - first.base >= first.reserved) return nullptr;
  // Adjacent mappings form one range.
  u64 end = first.base + first.reserved;
  while (address + bytes > end) {
    ++it;
    if (it == allocations_.end() || it->first != end || it->second.kind != MemoryKind::Mapping)
      return nullptr;
    end += it->second.reserved;
  }
  return reinterpret_cast<char *>(address - first.base + first.host);
}

bool Memory::in_window(u64 address) const {
  std::shared_lock lock(mutex_);
  return window_ != 0 && address - window_ < kWindowBytes;
}

void Memory::populate(char *host, u64 bytes) {
  u64 at = reinterpret_cast<u64>(host);
  if (bytes < kGranuleBytes) return;
  std::optional<Allocation> a = find(at - distance_);
  if (!a || a->kind != MemoryKind::Mapping) return;
  u64 begin = at / kGranuleBytes, end = rounded_up(at + bytes, kGranuleBytes) / kGranuleBytes;
  populated_.add(begin, end, [](u64 first, u64 last) {
    auto *memory = reinterpret_cast<std::byte *>(first * kGranuleBytes);
    (void)ckpt::populate({memory, (last - first) * kGranuleBytes});  // else the copy makes them
  });
}

std::optional<u64> Memory::reserve(u64 bytes, u64 align, u64 at) {
  std::unique_lock lock(mutex_);
  if (!open_window()) return {};
  bool fixed = at != 0 && at % kGranuleBytes == 0 && free_.take_at(at, bytes);
  std::optional<u64> base = fixed ? at : free_.take(bytes, std::max(align, kGranuleBytes));
  if (!base) return {};
  if (own_reservations_ && !map_without_access(*base, bytes, MAP_FIXED)) {
    free_.give(*base, bytes);
    return {};
  }
  reservations_[*base] = bytes;
  return base;
}

bool Memory::unreserve(u64 base, u64 bytes) {
  std::unique_lock lock(mutex_);
  auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second != bytes) return false;
  auto inside = allocations_.lower_bound(base);
  if (inside != allocations_.end() && inside->first < base + bytes) return false;
  reservations_.erase(it);
  if (own_reservations_) (void)map_without_access(base, bytes, MAP_FIXED | MAP_NORESERVE);
  free_.give(base, bytes);
  return true;
}

bool Memory::in_one_reservation(u64 base, u64 bytes) const {
  std::shared_lock lock(mutex_);
  auto r = reservations_.upper_bound(base);
  if (r == reservations_.begin()) return false;
  --r;
  return base + bytes <= r->first + r->second;
}

bool Memory::map(u64 base, u64 bytes, int memory_fd, u64 offset, u32 device, u64 physical) {
  std::unique_lock lock(mutex_);
  auto r = reservations_.upper_bound(base);
  if (r == reservations_.begin()) return false;
  --r;
  if (base + bytes > r->first + r->second) return false;
  auto next = allocations_.lower_bound(base);
  if (next != allocations_.end() && next->first < base + bytes) return false;
  if (next != allocations_.begin() &&
      std::prev(next)->second.base + std::prev(next)->second.reserved > base)
    return false;
  void *p = mmap(pointer(base + distance_), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 memory_fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) return false;
  madvise(p, bytes, MADV_HUGEPAGE);  // a device's memory needs no page faults
  Allocation a;
  a.base = base;
  a.bytes = a.reserved = bytes;
  a.kind = MemoryKind::Mapping;
  a.device = device;
  a.host = base + distance_;
  a.physical = physical;
  a.offset = offset;
  add(a);
  return true;
}

bool Memory::unmap(u64 base, u64 bytes) {
  std::unique_lock lock(mutex_);
  u64 end = base + bytes;
  // Only whole mappings can be unmapped.
  u64 at = base;
  for (auto it = allocations_.find(base); at < end; ++it) {
    if (it == allocations_.end() || it->first != at || it->second.kind != MemoryKind::Mapping)
      return false;
    at += it->second.reserved;
  }
  if (at != end) return false;
  for (auto it = allocations_.find(base); it != allocations_.end() && it->first < end;) {
    release_locked(it->second);
    it = allocations_.erase(it);
  }
  return true;
}

bool Memory::set_access(u64 base, u64 bytes, u32 device, bool read, bool write) {
  std::unique_lock lock(mutex_);
  u64 at = base, end = base + bytes;
  for (auto it = allocations_.find(base); at < end; ++it) {
    if (it == allocations_.end() || it->first != at || it->second.kind != MemoryKind::Mapping)
      return false;
    Allocation &a = it->second;
    a.readers = (a.readers & ~(1u << device)) | static_cast<u32>(read || write) << device;
    a.writers = (a.writers & ~(1u << device)) | static_cast<u32>(write) << device;
    at += a.reserved;
  }
  return at == end;
}

}  // namespace ckpt::softcuda
