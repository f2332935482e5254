// SPDX-License-Identifier: Apache-2.0
//
// The entries of virtual memory management. Memory that program_memory.h does not serve is the
// driver's, and so are its handles.
#include <vector>

#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/noted_blockers.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/pools.h"
#include "libckpt-cuda/memory/program_memory.h"

namespace ckpt::cuda {
namespace {

// Calls `f` with the driver's handle.
template <class F>
CUresult with_real(Handle handle, F f) {
  if (!is_ours(handle)) return f(handle);
  Physical physical = program_memory().real(handle);
  return physical == 0 ? CUDA_ERROR_INVALID_VALUE : f(physical);
}

// Memory of cuMemAlloc and of pools is virtual memory only because we serve it (memory.h). To the
// driver it is no mapping of the program's, so it refuses to change one there. We must, too: a
// program that takes the access away would have the kernel of survey/ end the context.
bool is_no_mapping(CUdeviceptr at, size_t bytes) { return addresses().overlap(at, bytes); }

// A call after which other devices or processes reach the memory.
template <class F>
CUresult share(Id id, const char *what, Handle handle, F f) {
  CUresult e = with_real(handle, f);
  if (e == CUDA_SUCCESS) note_blocker(id, what);
  return e;
}

constexpr const char *kShared = "it shares device memory with another process or device";
constexpr const char *kMulticast = "it uses multicast memory";

// The driver's handles take the place of ours, and the memory of an array is the driver's.
template <class F>
CUresult map_array(const CUarrayMapInfo *list, unsigned count, F real) {
  if (list == nullptr) return real(nullptr);
  std::vector<CUarrayMapInfo> own(list, list + count);
  std::vector<Handle> bound;
  for (CUarrayMapInfo &info : own) {
    Handle handle = info.memHandle.memHandle;
    if (info.memOperationType != CU_MEM_OPERATION_TYPE_MAP || !is_ours(handle)) continue;
    info.memHandle.memHandle = program_memory().real(handle);
    if (info.memHandle.memHandle == 0) return CUDA_ERROR_INVALID_VALUE;
    bound.push_back(handle);
  }
  CUresult e = real(own.data());
  for (Handle handle : bound)
    if (e == CUDA_SUCCESS) program_memory().leave_to_driver(handle);
  return e;
}

}  // namespace

CUresult entry_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                           const CUmemAllocationProp *prop, unsigned long long flags) {
  PASS_OR_RETURN(pass);
  if (out == nullptr || prop == nullptr || flags != 0 || !ProgramMemory::serves(*prop))
    return with_memory([&] { return REAL(cuMemCreate)(out, bytes, prop, flags); });
  return make_with_manager(bytes, [&] {
    return with_memory([&] { return program_memory().create(bytes, *prop, *out); });
  });
}

CUresult entry_cuMemRelease(CUmemGenericAllocationHandle handle) {
  PASS_OR_RETURN(pass);
  if (!is_ours(handle)) return REAL(cuMemRelease)(handle);
  u64 freed = 0;
  CUresult e = program_memory().release(handle, freed);
  report_freed(freed);
  return e;
}

CUresult entry_cuMemMap(CUdeviceptr at, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
  PASS_OR_RETURN(pass);
  if (is_no_mapping(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return with_memory([&] {
    return is_ours(handle) ? program_memory().map(at, bytes, offset, handle, flags)
                           : REAL(cuMemMap)(at, bytes, offset, handle, flags);
  });
}

CUresult entry_cuMemUnmap(CUdeviceptr at, size_t bytes) {
  PASS_OR_RETURN(pass);
  if (is_no_mapping(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  u64 freed = 0;
  CUresult e = program_memory().unmap(at, bytes, freed);
  report_freed(freed);
  return e;
}

CUresult entry_cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
                              size_t count) {
  PASS_OR_RETURN(pass);
  if (is_no_mapping(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (access == nullptr) return REAL(cuMemSetAccess)(at, bytes, access, count);
  return with_memory([&] { return program_memory().set_access(at, bytes, {access, count}); });
}

CUresult entry_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at,
                                   unsigned long long flags) {
  PASS_OR_RETURN(pass);
  CUresult e = with_memory([&] { return REAL(cuMemAddressReserve)(out, bytes, align, at, flags); });
  if (e == CUDA_SUCCESS) program_memory().reserved(*out);
  return e;
}

// Forgotten first: another thread may get the same addresses as soon as the driver has freed them.
CUresult entry_cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  PASS_OR_RETURN(pass);
  if (is_no_mapping(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool known = program_memory().unreserved(at);
  CUresult e = REAL(cuMemAddressFree)(at, bytes);
  if (e != CUDA_SUCCESS && known) program_memory().reserved(at);
  return e;
}

CUresult entry_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  HOLD_OR_RETURN(held);
  u64 at = reinterpret_cast<u64>(address);
  if (memory().find(at) || ipc_memory().find(at) || pools().find(at))
    return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr && program_memory().retain(at, *out)) return CUDA_SUCCESS;
  return REAL(cuMemRetainAllocationHandle)(out, address);
}

CUresult entry_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                      CUmemGenericAllocationHandle handle) {
  HOLD_OR_RETURN(held);
  CUresult e = with_real(handle, [&](Physical physical) {
    return REAL(cuMemGetAllocationPropertiesFromHandle)(prop, physical);
  });
  // We may have asked for more (physical.h).
  if (std::optional<CUmemAllocationHandleType> asked = program_memory().asked_types(handle);
      asked && e == CUDA_SUCCESS)
    prop->requestedHandleTypes = *asked;
  return e;
}

CUresult entry_cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream) {
  PASS_OR_RETURN(pass);
  return map_array(list, count, [&](CUarrayMapInfo *own) {
    return REAL(cuMemMapArrayAsync)(own, count, stream);
  });
}

CUresult entry_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned int count, CUstream stream) {
  PASS_OR_RETURN(pass);
  return map_array(list, count, [&](CUarrayMapInfo *own) {
    return REAL(cuMemMapArrayAsync_ptsz)(own, count, stream);
  });
}

// ---- entries after which a checkpoint is refused

CUresult entry_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  PASS_OR_RETURN(pass);
  if (program_memory().asked_types(handle) == CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  return share(Id::id_cuMemExportToShareableHandle, kShared, handle, [&](Physical physical) {
    return REAL(cuMemExportToShareableHandle)(out, physical, type, flags);
  });
}

CUresult entry_cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
                                  CUmemGenericAllocationHandle handle, size_t memory_offset,
                                  size_t bytes, unsigned long long flags) {
  PASS_OR_RETURN(pass);
  return share(Id::id_cuMulticastBindMem, kMulticast, handle, [&](Physical physical) {
    return REAL(cuMulticastBindMem)(multicast, offset, physical, memory_offset, bytes, flags);
  });
}

CUresult entry_cuMulticastBindMem_v2(CUmemGenericAllocationHandle multicast, CUdevice device,
                                     size_t offset, CUmemGenericAllocationHandle handle,
                                     size_t memory_offset, size_t bytes, unsigned long long flags) {
  PASS_OR_RETURN(pass);
  return share(Id::id_cuMulticastBindMem_v2, kMulticast, handle, [&](Physical physical) {
    return REAL(cuMulticastBindMem_v2)(multicast, device, offset, physical, memory_offset, bytes,
                                       flags);
  });
}

CUresult entry_cuLogicalEndpointBindMem(CUlogicalEndpointId endpoint, CUdevice device,
                                        cuuint64_t offset, CUmemGenericAllocationHandle handle,
                                        cuuint64_t memory_offset, cuuint64_t bytes,
                                        unsigned long long flags) {
  PASS_OR_RETURN(pass);
  return share(Id::id_cuLogicalEndpointBindMem, kShared, handle, [&](Physical physical) {
    return REAL(cuLogicalEndpointBindMem)(endpoint, device, offset, physical, memory_offset, bytes,
                                          flags);
  });
}

}  // namespace ckpt::cuda
