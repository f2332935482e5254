// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/memory/memory.h"

#include <algorithm>
#include <iterator>

#include "common/base/log.h"
#include "common/base/rounded_up.h"
#include "common/base/units.h"
#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/memory/own_addresses.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kBlockBytes = Memory::kGranularity;
constexpr u64 kArenaBytes = 1ull << 40;
constexpr u64 kLargestBytes = 1ull << 50;
constexpr int kTries = 4;

bool is_small(u64 bytes) { return api::is_small(bytes, kBlockBytes); }

}  // namespace

Memory &memory() {
  static Memory *const kMemory = new Memory;
  return *kMemory;
}

u64 Memory::reserved(u64 bytes) { return api::reserved_bytes(bytes, kBlockBytes); }

// A driver of this process keeps the addresses, also while other devices are used. Drivers of both
// sides of split devices have the same ones.
CUresult Memory::reserve(u64 base, u64 bytes, u64 &got) {
  if (!link().is_split()) return reserve_at(current_context(), base, bytes, got);
  if (is_drivers()) base = own_driver().arena.base;
  u64 same = 0;
  CUresult e = reserve_at({Site::By::Server, 0}, base, bytes, got);
  return e == CUDA_SUCCESS ? reserve_at({Site::By::Own, 0}, got, bytes, same) : e;
}

CUresult Memory::reserve_at(const Site &site, u64 base, u64 bytes, u64 &got) {
  Bytes reply;
  Writer w;
  w.put(base).put(bytes);
  // An error is none of a kernel: the program can go elsewhere.
  CUresult e = link().ask(number(Op::Arena), site, {w.bytes()}, &reply);
  if (e == CUDA_SUCCESS) e = read_reply(reply, got);
  if (e == CUDA_SUCCESS && link().is_here(site)) own_driver().arena = {got, bytes};
  return e;
}

bool Memory::is_drivers() const { return own_driver().arena.bytes != 0; }

void Memory::free_addresses() {
  if (arena_ != 0 && !is_drivers()) (void)::munmap(pages(arena_), arena_bytes_);
}

void Memory::keep_addresses() {
  if (arena_ != 0 && !is_drivers()) (void)reserve_here(arena_, arena_bytes_);
}

// First where the device likes it; if these addresses are in use here, where this process has room.
CUresult Memory::open_arena() {
  u64 base = 0;
  CUresult e = reserve(0, kArenaBytes, base);
  if (e != CUDA_SUCCESS) return e;
  bool ok = is_drivers() || reserve_here(base, kArenaBytes) == base;
  for (int i = 0; i < kTries && !ok; i++) {
    u64 room = reserve_here(0, kArenaBytes + kBlockBytes), got = 0;
    base = rounded_up(room, kBlockBytes);
    ok = room && reserve(base, kArenaBytes, got) == CUDA_SUCCESS && got == base;
  }
  if (!ok) {
    log::error("the device of the other node has no range of addresses that is free here, too");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  arena_ = base;
  arena_bytes_ = kArenaBytes;
  free_ = Spans(base + kHandleBytes, kArenaBytes - kHandleBytes);
  return CUDA_SUCCESS;
}

CUresult Memory::handle_range(u64 &base) {
  std::lock_guard lock(mutex_);
  CUresult e = arena_ == 0 ? open_arena() : CUDA_SUCCESS;
  base = arena_;
  return e;
}

CUresult Memory::map_cells(CUdevice device, u64 &base) {
  std::lock_guard lock(mutex_);
  base = arena_ + cells_.size() * kCellBlockBytes;
  if (arena_ == 0 || base - arena_ >= kHandleBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Writer w;
  CUresult e =
      ask(Op::Map, site_of_device(device), w.put(base).put(kCellBlockBytes).put(i32{device}));
  if (e == CUDA_SUCCESS) cells_.push_back({base, kCellBlockBytes, 0, device, true});
  return e;
}

CUresult Memory::take_addresses(u64 bytes, u64 &base) {
  if (arena_ == 0)
    if (CUresult e = open_arena(); e != CUDA_SUCCESS) return e;
  std::optional<u64> at = free_.take(bytes, kBlockBytes);
  base = at.value_or(0);
  return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Memory::map_block(u64 bytes, CUdevice device, Sharing sharing, u64 &base) {
  if (CUresult e = take_addresses(bytes, base); e != CUDA_SUCCESS) return e;
  return map_at(base, bytes, device, sharing);
}

// The addresses are given back if there is no memory.
CUresult Memory::map_at(u64 base, u64 bytes, CUdevice device, Sharing sharing) {
  if (link().native() && is_at_same_address(sharing)) return share_block(base, bytes);
  Writer w;
  CUresult e = ask(Op::Map, site_of_device(device), w.put(base).put(bytes).put(i32{device}));
  if (e != CUDA_SUCCESS) {
    free_.give(base, bytes);
  } else if (is_at_same_address(sharing)) {
    host_pages_++;
    if (change_here(base, bytes, true)) return e;
    unmap_block(base, bytes, device, sharing);
    e = CUDA_ERROR_OUT_OF_MEMORY;
  }
  return e;
}

// A driver in this process reaches the program's pages at their addresses, over the bus.
CUresult Memory::share_block(u64 base, u64 bytes) {
  CUresult e = change_here(base, bytes, true)
                   ? link().native()->share_pages(current_context(), base, bytes)
                   : CUDA_ERROR_OUT_OF_MEMORY;
  if (e == CUDA_SUCCESS) {
    host_pages_++;
    return e;
  }
  (void)change_here(base, bytes, false);
  free_.give(base, bytes);
  return e == CUDA_ERROR_OUT_OF_MEMORY
             ? e
             : refuse("memory that host and device share",
                      "the driver does not reach memory of the host at its own address; "
                      "CKPT_CUDA_NATIVE=no lets ckpt-cuda-server serve the calls after a move");
}

void Memory::unmap_block(u64 base, u64 bytes, CUdevice device, Sharing sharing) {
  bool pages = is_at_same_address(sharing);
  Native *native = link().native();
  if (pages && native) native->end_shared_pages(base);
  if (pages) {
    (void)change_here(base, bytes, false);
    host_pages_--;
  }
  if (pages && native) return free_.give(base, bytes);
  Writer w;
  w.put(base).put(bytes);
  link().send(number(Op::Unmap), site_of_device(device), {w.bytes()});
  free_.give(base, bytes);
}

CUresult Memory::take_small(u64 context, CUdevice device, u64 bytes, Sharing sharing, u64 &base) {
  if (auto piece = small_.take({context, sharing}, bytes)) {
    base = piece->base;
    return CUDA_SUCCESS;
  }
  CUresult e = map_block(kBlockBytes, device, sharing, base);
  if (e == CUDA_SUCCESS) small_.add({context, sharing}, base, kBlockBytes, bytes);
  return e;
}

CUresult Memory::allocate(u64 context, u64 bytes, u64 &out, Sharing sharing) {
  if (sharing != Sharing::None && link().is_split())
    return refuse("memory that host and device share", kNotSplit);
  std::optional<CUdevice> device = ledger().device_of(context);
  if (!device) return context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
  if (bytes > kLargestBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  u64 all = reserved(bytes);
  CUresult e = is_small(bytes) ? take_small(context, *device, all, sharing, out)
                               : map_block(all, *device, sharing, out);
  if (e == CUDA_SUCCESS) all_[out] = {out, bytes, context, *device, ++last_id_, 0, false, sharing};
  return e;
}

CUresult Memory::allocate_for_code(u64 owner, u64 bytes, u64 managed_bytes, CUdevice device,
                                   u64 context, u64 &base) {
  std::lock_guard lock(mutex_);
  u64 plain = rounded_up(bytes, kBlockBytes), managed = rounded_up(managed_bytes, kBlockBytes);
  if (CUresult e = take_addresses(plain + managed, base); e != CUDA_SUCCESS) return e;
  CUresult e = plain ? map_at(base, plain, device, Sharing::None) : CUDA_SUCCESS;
  if (e != CUDA_SUCCESS) {
    if (managed) free_.give(base + plain, managed);
    return e;
  }
  if (managed) e = map_at(base + plain, managed, device, Sharing::Managed);
  if (e != CUDA_SUCCESS) {
    if (plain) unmap_block(base, plain, device, Sharing::None);
    return e;
  }
  std::vector<Block> &all = of_code_[owner];
  if (plain) all.push_back({base, plain, context, device, false});
  if (managed) all.push_back({base + plain, managed, context, device, true});
  return e;
}

void Memory::release_of_code(u64 owner) {
  std::lock_guard lock(mutex_);
  auto found = of_code_.find(owner);
  if (found == of_code_.end()) return;
  for (const Block &b : found->second)
    unmap_block(b.base, b.bytes, b.device, b.excluded ? Sharing::Managed : Sharing::None);
  of_code_.erase(found);
}

void Memory::set_context_of_code(u64 owner, u64 context) {
  std::lock_guard lock(mutex_);
  if (auto found = of_code_.find(owner); found != of_code_.end())
    for (Block &b : found->second) b.context = context;
}

// A shared block that has become free as a whole is given back.
void Memory::give(const Allocation &a) {
  if (!is_small(a.bytes)) return unmap_block(a.base, reserved(a.bytes), a.device, a.sharing);
  u64 block = small_.block_of(a.base);
  if (!small_.give(block, a.base, a.bytes)) return;
  small_.remove(block);
  unmap_block(block, kBlockBytes, a.device, a.sharing);
}

bool Memory::release(u64 base) {
  std::lock_guard lock(mutex_);
  auto found = all_.find(base);
  if (found == all_.end() || found->second.owner != 0) return false;
  give(found->second);
  all_.erase(found);
  return true;
}

void Memory::release_all(u64 context) {
  std::lock_guard lock(mutex_);
  for (auto i = all_.begin(); i != all_.end();) {
    bool of_it = i->second.context == context;
    if (of_it && i->second.owner == 0) give(i->second);
    i = of_it ? all_.erase(i) : std::next(i);
  }
}

void Memory::add_placed(u64 base, u64 bytes, u64 context, u64 owner, Sharing sharing) {
  CUdevice device = ledger().device_of(context).value_or(0);
  std::lock_guard lock(mutex_);
  all_.try_emplace(base,
                   Allocation{base, bytes, context, device, ++last_id_, owner, false, sharing});
}

void Memory::forget_of(u64 owner) {
  if (Kind kind = kind_of(owner); kind != Kind::Module && kind != Kind::Library) return;
  std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const auto &a) { return a.second.owner == owner; });
}

CUresult Memory::reserve(u64 bytes, u64 align, u64 wanted, u64 &base) {
  if (bytes > kLargestBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  if (arena_ == 0)
    if (CUresult e = open_arena(); e != CUDA_SUCCESS) return e;
  bool there = wanted != 0 && wanted % kBlockBytes == 0 && free_.take_at(wanted, bytes);
  base = there ? wanted : free_.take(bytes, std::max(align, kBlockBytes)).value_or(0);
  return base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Memory::give_reserved(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  free_.give(base, bytes);
}

void Memory::add_mapped(u64 base, u64 bytes, CUdevice device, u64 physical) {
  std::lock_guard lock(mutex_);
  all_[base] = {base, bytes, 0, device, ++last_id_, physical, false, Sharing::None, false};
}

void Memory::set_mapped_access(u64 base, bool writable) {
  std::lock_guard lock(mutex_);
  if (auto found = all_.find(base); found != all_.end()) found->second.writable = writable;
}

void Memory::forget_mapped(u64 base) {
  std::lock_guard lock(mutex_);
  all_.erase(base);
}

bool Memory::exclude(u64 base, bool excluded) {
  std::lock_guard lock(mutex_);
  auto found = all_.find(base);
  if (found == all_.end()) return false;
  found->second.excluded = excluded;
  return true;
}

std::vector<Memory::Block> Memory::blocks() const {
  std::lock_guard lock(mutex_);
  std::vector<Block> all;
  small_.for_each([&all](const auto &owner, u64 base) {
    auto [context, sharing] = owner;
    CUdevice device = ledger().device_of(context).value_or(0);
    all.push_back({base, kBlockBytes, context, device, sharing != Sharing::None});
  });
  for (const auto &[base, a] : all_)
    if (a.owner == 0 && !is_small(a.bytes))
      all.push_back(
          {base, reserved(a.bytes), a.context, a.device, a.excluded || a.sharing != Sharing::None});
  for (const auto &[owner, blocks] : of_code_) all.insert(all.end(), blocks.begin(), blocks.end());
  all.insert(all.end(), cells_.begin(), cells_.end());
  return all;
}

bool Memory::maps(u64 address, u64 bytes) const {
  std::vector<Block> all = blocks();
  {
    std::lock_guard lock(mutex_);
    for (const auto &[base, a] : all_)
      if (kind_of(a.owner) == Kind::Memory) all.push_back({base, a.bytes, 0, a.device, false});
  }
  std::ranges::sort(all, {}, &Block::base);
  u64 at = address;
  for (const Block &b : all)
    if (at >= b.base && at - b.base < b.bytes) at = b.base + b.bytes;
  return at > address && at - address >= bytes;
}

Result<> Memory::make_again() {
  if (arena_ == 0) return {};
  u64 got = 0;
  if (CUresult e = reserve(arena_, arena_bytes_, got); e != CUDA_SUCCESS || got != arena_)
    return device_failure(
        fmt::format(
            "the device cannot reserve the addresses of the program's memory, {:#x} to {:#x}",
            arena_, arena_ + arena_bytes_),
        e);
  for (const Block &b : blocks()) {
    Writer w;
    w.put(b.base).put(b.bytes).put(i32{b.device});
    Site site{Site::By::Device, 0, b.device};
    if (CUresult e = link().ask(number(Op::Map), site, {w.bytes()}); e != CUDA_SUCCESS)
      return device_failure(
          fmt::format("the device has no {} for the program's memory", mebibytes_needed(b.bytes)),
          e);
  }
  return {};
}

std::optional<Allocation> Memory::find(u64 address) const {
  std::lock_guard lock(mutex_);
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return {};
  const Allocation &a = std::prev(next)->second;
  return address - a.base < a.bytes ? std::optional(a) : std::nullopt;
}

bool Memory::holds(u64 address, u64 bytes) const {
  if (bytes > UINT64_MAX - address) return false;
  std::lock_guard lock(mutex_);
  for (u64 at = address, end = address + bytes;;) {
    auto next = all_.upper_bound(at);
    if (next == all_.begin()) return false;
    const Allocation &a = std::prev(next)->second;
    bool inside = at - a.base < a.bytes && a.writable;
    if (!inside || (at != address && kind_of(a.owner) != Kind::Memory)) return false;
    at = a.base + a.bytes;
    if (at >= end) return true;
    if (kind_of(a.owner) != Kind::Memory) return false;
  }
}

bool Memory::is_device(u64 address) const {
  {
    std::lock_guard lock(mutex_);
    if (arena_ != 0 && address - arena_ < arena_bytes_) return true;
  }
  return find(address).has_value();
}

}  // namespace ckpt::remote::cuda
