// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/program_memory.h"

#include <utility>

#include "libckpt-cuda/memory/unmap_ranges.h"

namespace ckpt::cuda {

ProgramMemory &program_memory() {
  static ProgramMemory *const kMemory = new ProgramMemory;
  return *kMemory;
}

bool ProgramMemory::serves(const CUmemAllocationProp &prop) {
  return prop.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_NONE &&
         prop.allocFlags.usage == 0 && prop.win32HandleMetaData == nullptr;
}

// ---- pieces

ProgramMemory::Piece *ProgramMemory::valid(Handle handle) {
  auto it = pieces_.find(handle);
  return it == pieces_.end() || it->second.handles == 0 ? nullptr : &it->second;
}

CUresult ProgramMemory::create(u64 bytes, const CUmemAllocationProp &prop, Handle &out) {
  Piece piece;
  CUresult e = make_physical(bytes, prop, piece.physical);
  if (e != CUDA_SUCCESS) return e;
  piece.bytes = bytes;
  piece.prop = prop;
  std::lock_guard lock(mutex_);
  out = next_++;
  pieces_[out] = piece;
  bytes_ += bytes;
  return CUDA_SUCCESS;
}

// The caller releases `unused` when it has left the mutex, because the driver may wait for work.
void ProgramMemory::drop_if_unused(Handle handle, Physical &unused, u64 &freed) {
  auto it = pieces_.find(handle);
  if (it->second.handles > 0 || it->second.mappings > 0) return;
  unused = it->second.physical;
  freed += it->second.bytes;
  bytes_ -= it->second.bytes;
  pieces_.erase(it);
}

CUresult ProgramMemory::release(Handle handle, u64 &freed) {
  Physical unused = 0;
  {
    std::lock_guard lock(mutex_);
    Piece *piece = valid(handle);
    if (piece == nullptr) return CUDA_ERROR_INVALID_VALUE;
    piece->handles--;
    drop_if_unused(handle, unused, freed);
  }
  release_physical(unused);
  return CUDA_SUCCESS;
}

Physical ProgramMemory::real(Handle handle) {
  std::lock_guard lock(mutex_);
  Piece *piece = valid(handle);
  return piece == nullptr ? 0 : piece->physical;
}

std::optional<CUmemAllocationHandleType> ProgramMemory::asked_types(Handle handle) {
  std::lock_guard lock(mutex_);
  Piece *piece = valid(handle);
  if (piece == nullptr) return {};
  return piece->prop.requestedHandleTypes;
}

void ProgramMemory::leave_to_driver(Handle handle) {
  std::lock_guard lock(mutex_);
  if (Piece *piece = valid(handle)) piece->drivers = true;
}

u64 ProgramMemory::bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for (auto &[handle, p] : pieces_) sum += p.prop.location.id == device ? p.bytes : 0;
  return sum;
}

// ---- mappings

void ProgramMemory::end_mapping(Handle handle, u64 &freed) {
  Physical unused = 0;
  {
    std::lock_guard lock(mutex_);
    pieces_.at(handle).mappings--;
    drop_if_unused(handle, unused, freed);
  }
  release_physical(unused);
}

// The piece is counted as mapped before it is, so that no other thread frees it meanwhile.
CUresult ProgramMemory::map(u64 at, u64 bytes, u64 offset, Handle handle,
                            unsigned long long flags) {
  Physical physical = 0;
  {
    std::lock_guard lock(mutex_);
    Piece *piece = valid(handle);
    if (piece == nullptr) return CUDA_ERROR_INVALID_VALUE;
    piece->mappings++;
    physical = piece->physical;
  }
  CUresult e = driver().cuMemMap(at, bytes, offset, physical, flags);
  if (e != CUDA_SUCCESS) {
    u64 freed = 0;
    end_mapping(handle, freed);
    return e;
  }
  std::lock_guard lock(mutex_);
  mappings_[at] = {bytes, offset, handle, {}, true};
  return e;
}

ProgramMemory::Mappings ProgramMemory::take_out(u64 at, u64 bytes) {
  std::lock_guard lock(mutex_);
  Mappings out;
  for (auto it = mappings_.lower_bound(at); it != mappings_.end() && it->first - at < bytes;)
    out.insert(mappings_.extract(it++));
  return out;
}

// The mutex is free while the driver unmaps, because that waits for running work. Until it has, no
// other thread can map anything there.
CUresult ProgramMemory::unmap(u64 at, u64 bytes, u64 &freed) {
  Mappings gone = take_out(at, bytes);
  CUresult e = driver().cuMemUnmap(at, bytes);
  if (e != CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    mappings_.merge(gone);
    return e;
  }
  for (auto &[base, m] : gone) end_mapping(m.handle, freed);
  return e;
}

CUresult ProgramMemory::set_access(u64 at, u64 bytes, std::span<const CUmemAccessDesc> access) {
  CUresult e = driver().cuMemSetAccess(at, bytes, access.data(), access.size());
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(mutex_);
  for (auto it = mappings_.lower_bound(at); it != mappings_.end() && it->first - at < bytes; ++it)
    for (const CUmemAccessDesc &a : access) change_access(it->second.access, a);
  return e;
}

bool ProgramMemory::retain(u64 address, Handle &out) {
  std::lock_guard lock(mutex_);
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return false;
  --it;
  if (address - it->first >= it->second.bytes) return false;
  out = it->second.handle;
  pieces_.at(out).handles++;
  return true;
}

void ProgramMemory::reserved(u64 base) {
  std::lock_guard lock(mutex_);
  reservations_.insert(base);
}

bool ProgramMemory::unreserved(u64 base) {
  std::lock_guard lock(mutex_);
  return reservations_.erase(base) > 0;
}

u64 ProgramMemory::reservation_of(u64 at) const {
  auto it = reservations_.upper_bound(at);
  return it == reservations_.begin() ? at : *std::prev(it);
}

// ---- a checkpoint

std::vector<ProgramMemory::Whole> ProgramMemory::wholes() const {
  std::lock_guard lock(mutex_);
  std::vector<Whole> all;
  for (auto &[handle, p] : pieces_)
    if (!p.drivers)
      all.push_back({fmt::format("vmm-{}", handle - kFirstHandle), p.bytes, p.prop.location.id,
                     p.physical, handle});
  return all;
}

// A failure is left to unmap_all(), mapping by mapping.
void ProgramMemory::unmap_adjacent() {
  std::vector<AddressRange> mapped;
  for (auto &[at, m] : mappings_)
    if (m.mapped && ours(m)) mapped.push_back({at, at + m.bytes});
  auto window_of = [this](u64 at) { return reservation_of(at); };
  for (const AddressRange &r : unmap_ranges(mapped, window_of)) {
    if (driver().cuMemUnmap(r.begin, r.end - r.begin) != CUDA_SUCCESS) continue;
    for (auto it = mappings_.lower_bound(r.begin); it != mappings_.end() && it->first < r.end; ++it)
      it->second.mapped = false;
  }
}

Result<> ProgramMemory::unmap_all() {
  std::lock_guard lock(mutex_);
  unmap_adjacent();
  for (auto &[at, m] : mappings_) {
    if (!m.mapped || !ours(m)) continue;
    if (CUresult e = driver().cuMemUnmap(at, m.bytes); e != CUDA_SUCCESS)
      return fail("cannot unmap {} bytes of the program's memory at {:#x}: {}", m.bytes, at,
                  error_name(e));
    m.mapped = false;
  }
  for (auto &[handle, p] : pieces_)
    if (!p.drivers) release_physical(std::exchange(p.physical, 0));
  return {};
}

CUresult ProgramMemory::map_again(u64 at, Mapping &m) {
  CUresult e = driver().cuMemMap(at, m.bytes, m.offset, pieces_.at(m.handle).physical, 0);
  if (e != CUDA_SUCCESS) return e;
  m.mapped = true;
  return give_access(at, m.bytes, m.access);
}

Result<> ProgramMemory::remap_all() {
  std::lock_guard lock(mutex_);
  for (auto &[handle, p] : pieces_) {
    if (p.physical != 0) continue;
    if (CUresult e = make_physical_again(handle, p.bytes, p.prop, p.physical); e != CUDA_SUCCESS)
      return fail("cannot make {} bytes of the program's device memory again: {}", p.bytes,
                  error_name(e));
  }
  for (auto &[at, m] : mappings_) {
    if (m.mapped) continue;
    if (CUresult e = map_again(at, m); e != CUDA_SUCCESS)
      return fail("cannot map {} bytes of the program's memory at {:#x} again: {}", m.bytes, at,
                  error_name(e));
  }
  return {};
}

}  // namespace ckpt::cuda
