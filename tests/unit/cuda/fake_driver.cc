// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/fake_driver.h"

#include "libckpt-cuda/entry/streams.h"

namespace ckpt::cuda {
namespace fake {

State &state() {
  static State the_state;
  return the_state;
}

void reset() {
  State fresh;
  fresh.reservations = std::move(state().reservations);
  fresh.next_address = state().next_address;
  state() = std::move(fresh);
}

u64 *State::word(u64 address) {
  auto it = mappings.upper_bound(address);
  if (it == mappings.begin()) return nullptr;
  auto &[base, m] = *--it;
  if (address - base >= m.bytes) return nullptr;
  return &physicals.at(m.physical).words[(address - base + m.offset) / kGranule];
}

namespace {

bool fails() {
  std::optional<unsigned> &left = state().fail_after;
  if (!left) return false;
  if (*left > 0) {
    --*left;
    return false;
  }
  left.reset();
  return true;
}
#define MAY_FAIL() \
  if (fails()) return CUDA_ERROR_UNKNOWN

void drop_if_unused(u64 handle) {
  PhysicalMemory &p = state().physicals.at(handle);
  if (p.handles > 0 || p.mappings > 0) return;
  state().free_granules += p.words.size();
  state().physicals.erase(handle);
}

CUresult reserve(CUdeviceptr *out, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  *out = state().next_address;
  state().next_address += bytes;  // reservations lie side by side
  state().reservations[*out] = bytes;
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                unsigned long long) {
  MAY_FAIL();
  if (state().free_granules < bytes / kGranule) return CUDA_ERROR_OUT_OF_MEMORY;
  state().free_granules -= bytes / kGranule;
  *out = state().next++;
  PhysicalMemory &p = state().physicals[*out];
  p.device = prop->location.id;
  p.words.resize(bytes / kGranule);
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  auto it = state().physicals.find(handle);
  if (it == state().physicals.end() || it->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  it->second.handles--;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

u64 reservation_of(u64 at, u64 bytes) {
  auto it = state().reservations.upper_bound(at);
  if (it == state().reservations.begin()) return 0;
  --it;
  return at + bytes <= it->first + it->second ? it->first : 0;
}

bool overlaps(u64 at, u64 bytes) {
  auto it = state().mappings.lower_bound(at);
  if (it != state().mappings.end() && it->first < at + bytes) return true;
  return it != state().mappings.begin() && (--it)->first + it->second.bytes > at;
}

CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags) {
  MAY_FAIL();
  auto p = state().physicals.find(handle);
  if (p == state().physicals.end() || p->second.handles == 0 || flags != 0 ||
      offset + bytes > p->second.words.size() * kGranule || reservation_of(at, bytes) == 0 ||
      overlaps(at, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  p->second.mappings++;
  state().mappings[at] = {bytes, offset, handle, {}};
  return CUDA_SUCCESS;
}

// The mappings that make up a range; none: it is not made up of whole ones of one reservation.
std::vector<u64> whole_mappings(u64 at, u64 bytes) {
  std::vector<u64> all;
  if (reservation_of(at, bytes) == 0) return all;
  u64 end = at;
  for (auto it = state().mappings.find(at);
       it != state().mappings.end() && it->first == end && end < at + bytes; ++it) {
    all.push_back(it->first);
    end += it->second.bytes;
  }
  return end == at + bytes ? all : std::vector<u64>{};
}

CUresult unmap(CUdeviceptr at, size_t bytes) {
  MAY_FAIL();
  std::vector<u64> all = whole_mappings(at, bytes);
  for (u64 base : all) {
    u64 physical = state().mappings.at(base).physical;
    state().mappings.erase(base);
    state().physicals.at(physical).mappings--;
    drop_if_unused(physical);
  }
  return all.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n) {
  MAY_FAIL();
  std::vector<u64> all = whole_mappings(at, bytes);
  for (u64 base : all)
    for (size_t i = 0; i < n; ++i)
      state().mappings.at(base).access[access[i].location.id] = access[i].flags;
  return all.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult create_event(CUevent *out, unsigned) {
  *out = reinterpret_cast<CUevent>(state().next++);
  state().events[*out].happened = true;
  return CUDA_SUCCESS;
}

CUresult record_event(CUevent event, CUstream stream) {
  state().events.at(event) = {false, {stream}};
  state().last_event = event;
  return CUDA_SUCCESS;
}

CUresult query_event(CUevent event) {
  bool happened = state().idle || state().events.at(event).happened;
  return happened ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult wait_event(CUstream stream, CUevent event, unsigned) {
  state().events.at(event).waiting.insert(stream);
  return CUDA_SUCCESS;
}

CUresult default_pool(CUmemoryPool *out, CUdevice device) {
  *out = reinterpret_cast<CUmemoryPool>(static_cast<u64>(0x1000 + device));
  return CUDA_SUCCESS;
}

Driver make_driver() {
  Driver d;
  d.cuDeviceGetCount = [](int *n) { return *n = kDevices, CUDA_SUCCESS; };
  d.cuDeviceGetAttribute = [](int *n, CUdevice_attribute, CUdevice) {
    return *n = 0, CUDA_SUCCESS;
  };
  d.cuDeviceTotalMem_v2 = [](size_t *n, CUdevice) { return *n = 64 * kGranule, CUDA_SUCCESS; };
  d.cuDeviceGetDefaultMemPool = default_pool;
  d.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
  d.cuCtxPopCurrent_v2 = [](CUcontext *) { return CUDA_SUCCESS; };
  d.cuMemGetAllocationGranularity = [](size_t *n, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
    return *n = kGranule, CUDA_SUCCESS;
  };
  d.cuMemAddressReserve = reserve;
  d.cuMemCreate = create;
  d.cuMemRelease = release;
  d.cuMemMap = map;
  d.cuMemUnmap = unmap;
  d.cuMemSetAccess = set_access;
  d.cuEventCreate = create_event;
  d.cuEventRecord = record_event;
  d.cuEventQuery = query_event;
  d.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
  d.cuStreamWaitEvent = wait_event;
  return d;
}

}  // namespace
}  // namespace fake

const Driver &driver() {
  static const Driver kDriver = fake::make_driver();
  return kDriver;
}

std::string error_name(CUresult e) { return fmt::format("CUDA error {}", static_cast<int>(e)); }

Result<> as_result(CUresult e, const char *what) {
  return e == CUDA_SUCCESS ? Result<>() : fail("cannot {}: {}", what, error_name(e));
}

bool capturing() { return fake::state().capturing; }

}  // namespace ckpt::cuda
