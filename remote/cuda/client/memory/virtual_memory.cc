// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/memory/virtual_memory.h"

#include <algorithm>
#include <iterator>

#include "common/base/units.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

CUresult make_there(u64 number, u64 bytes, CUdevice device) {
  Writer w;
  return ask(Op::MakeMemory, site_of_device(device), w.put(number).put(bytes).put(i32{device}));
}

CUresult map_there(u64 base, u64 bytes, u64 number, CUdevice device) {
  return ask(Op::MapMemory, site_of_device(device), Writer().put(base).put(bytes).put(number));
}

CUresult set_access_there(u64 base, u64 bytes, CUdevice device, CUmemAccess_flags flags) {
  Writer w;
  w.put(base).put(bytes).put(i32{device}).put(static_cast<u32>(flags));
  return ask(Op::SetAccess, site_of_device(device), w);
}

bool is_multiple(u64 bytes) { return bytes > 0 && bytes % Memory::kGranularity == 0; }

// Where an address lies in a map from bases to what begins there.
template <class Map>
auto at_or_before(Map &map, u64 address) {
  auto next = map.upper_bound(address);
  return next == map.begin() ? map.end() : std::prev(next);
}

}  // namespace

VirtualMemory &virtual_memory() {
  static VirtualMemory *const kVirtualMemory = new VirtualMemory;
  return *kVirtualMemory;
}

CUresult VirtualMemory::reserve(u64 bytes, u64 align, u64 wanted, u64 &base) {
  if (!is_multiple(bytes) || (align & (align - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  CUresult e = memory().reserve(bytes, align, wanted, base);
  if (e == CUDA_SUCCESS) reserved_[base] = bytes;
  return e;
}

CUresult VirtualMemory::free(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  auto found = reserved_.find(base);
  if (found == reserved_.end() || found->second != bytes || is_mapped(base, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  memory().give_reserved(base, bytes);
  reserved_.erase(found);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::make(u64 bytes, const CUmemAllocationProp &prop, u64 &number) {
  if (!is_multiple(bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  u64 wanted = ledger().new_number(Kind::Memory);
  CUresult e = make_there(wanted, bytes, prop.location.id);
  if (e != CUDA_SUCCESS) return e;
  physical_[wanted] = {bytes, prop};
  number = wanted;
  return e;
}

void VirtualMemory::end_if_unused(u64 number) {
  auto found = physical_.find(number);
  if (found->second.handles > 0 || found->second.mappings > 0) return;
  link().send(cuda::number(Op::EndMemory), site_of_device(found->second.prop.location.id),
              {Writer().put(number).bytes()});
  physical_.erase(found);
}

CUresult VirtualMemory::release(u64 number) {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(number);
  if (found == physical_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  found->second.handles--;
  end_if_unused(number);
  return CUDA_SUCCESS;
}

VirtualMemory::Mappings::const_iterator VirtualMemory::mapping_at(u64 address) const {
  auto at = at_or_before(mappings_, address);
  return at != mappings_.end() && address - at->first < at->second.bytes ? at : mappings_.end();
}

CUresult VirtualMemory::retain_at(u64 address, u64 &number) {
  std::lock_guard lock(mutex_);
  auto at = mapping_at(address);
  if (at == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  number = at->second.number;
  physical_.at(number).handles++;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::properties(u64 number, CUmemAllocationProp &out) const {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(number);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second.prop;
  return CUDA_SUCCESS;
}

bool VirtualMemory::is_reserved(u64 base, u64 bytes) const {
  auto at = at_or_before(reserved_, base);
  return at != reserved_.end() && base - at->first < at->second &&
         bytes <= at->second - (base - at->first);
}

bool VirtualMemory::is_mapped(u64 base, u64 bytes) const {
  auto next = mappings_.lower_bound(base);
  return mapping_at(base) != mappings_.end() ||
         (next != mappings_.end() && next->first - base < bytes);
}

CUresult VirtualMemory::map(u64 base, u64 bytes, u64 number) {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(number);
  bool valid = found != physical_.end() && base % Memory::kGranularity == 0 && is_multiple(bytes) &&
               bytes <= found->second.bytes && is_reserved(base, bytes) && !is_mapped(base, bytes);
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  CUdevice device = found->second.prop.location.id;
  if (CUresult e = map_there(base, bytes, number, device); e != CUDA_SUCCESS) return e;
  found->second.mappings++;
  mappings_[base] = {bytes, number, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  memory().add_mapped(base, bytes, device, number);
  return CUDA_SUCCESS;
}

std::vector<VirtualMemory::Mappings::iterator> VirtualMemory::whole_mappings(u64 base, u64 bytes) {
  std::vector<Mappings::iterator> all;
  u64 left = bytes;
  for (auto at = mappings_.find(base); left > 0; ++at) {
    bool joins = at != mappings_.end() && at->first == base + (bytes - left);
    if (!joins || at->second.bytes > left) return {};
    left -= at->second.bytes;
    all.push_back(at);
  }
  return all;
}

// In one call, unless mappings behind each other may be of devices of both sides.
CUresult VirtualMemory::unmap_there(u64 base, u64 bytes,
                                    const std::vector<Mappings::iterator> &all) {
  auto ask_for = [&](Mappings::iterator m, u64 from, u64 n) {
    CUdevice device = physical_.at(m->second.number).prop.location.id;
    return ask(Op::UnmapMemory, site_of_device(device), Writer().put(from).put(n));
  };
  if (!link().is_split()) return ask_for(all.front(), base, bytes);
  for (Mappings::iterator m : all)
    if (CUresult e = ask_for(m, m->first, m->second.bytes); e != CUDA_SUCCESS) return e;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::unmap(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  std::vector<Mappings::iterator> all = whole_mappings(base, bytes);
  if (all.empty() || !is_reserved(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = unmap_there(base, bytes, all); e != CUDA_SUCCESS) return e;
  for (Mappings::iterator m : all) {
    u64 number = m->second.number;
    memory().forget_mapped(m->first);
    mappings_.erase(m);
    physical_.at(number).mappings--;
    end_if_unused(number);
  }
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::set_access(u64 base, u64 bytes, CUmemAccess_flags flags) {
  std::lock_guard lock(mutex_);
  std::vector<Mappings::iterator> all = whole_mappings(base, bytes);
  if (all.empty()) return CUDA_ERROR_INVALID_VALUE;
  CUdevice device = physical_.at(all.front()->second.number).prop.location.id;
  if (CUresult e = set_access_there(base, bytes, device, flags); e != CUDA_SUCCESS) return e;
  for (Mappings::iterator m : all) {
    m->second.access = flags;
    memory().set_mapped_access(m->first, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  return CUDA_SUCCESS;
}

std::optional<CUmemAccess_flags> VirtualMemory::access_at(u64 address) const {
  std::lock_guard lock(mutex_);
  auto at = mapping_at(address);
  return at == mappings_.end() ? std::nullopt : std::optional(at->second.access);
}

std::vector<CUdevice> VirtualMemory::devices_in(u64 base, u64 bytes) const {
  std::lock_guard lock(mutex_);
  std::vector<CUdevice> all;
  for (auto m = mapping_at(base); m != mappings_.end() && m->first - base < bytes; ++m)
    if (CUdevice d = physical_.at(m->second.number).prop.location.id;
        std::ranges::find(all, d) == all.end())
      all.push_back(d);
  return all;
}

std::vector<VirtualMemory::Live> VirtualMemory::live() const {
  std::lock_guard lock(mutex_);
  std::map<u64, Live> all;
  for (const auto &[number, p] : physical_) all[number] = {number, p.bytes, p.prop.location.id, 0};
  for (const auto &[base, m] : mappings_)
    if (m.bytes == all[m.number].bytes && m.access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      all[m.number].address = base;
  std::vector<Live> out;
  for (const auto &[number, l] : all) out.push_back(l);
  return out;
}

Result<> VirtualMemory::make_again() {
  std::lock_guard lock(mutex_);
  for (const auto &[number, p] : physical_)
    if (CUresult e = make_there(number, p.bytes, p.prop.location.id); e != CUDA_SUCCESS)
      return device_failure(
          fmt::format("the device has no {} for the program's memory", mebibytes_needed(p.bytes)),
          e);
  for (const auto &[base, m] : mappings_) {
    CUdevice device = physical_.at(m.number).prop.location.id;
    CUresult e = map_there(base, m.bytes, m.number, device);
    if (e == CUDA_SUCCESS && m.access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      e = set_access_there(base, m.bytes, device, m.access);
    if (e != CUDA_SUCCESS)
      return device_failure(fmt::format("the device cannot map memory at {:#x} again", base), e);
  }
  return {};
}

}  // namespace ckpt::remote::cuda
