// SPDX-License-Identifier: Apache-2.0
//
// The entries of virtual memory management. Memory is of a device, and only that device reaches it,
// as devices of another node cannot reach each other's memory.
#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/client/memory/virtual_memory.h"

namespace ckpt::remote::cuda {
namespace {

constexpr const char *kDevicesOnly = "memory of the host is not carried to other nodes";
constexpr const char *kNoPeers = "devices cannot reach each other's memory";

CUresult check_device(CUdevice device) {
  int count = 0;
  if (CUresult e = entry_cuDeviceGetCount(&count); e != CUDA_SUCCESS) return e;
  return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// A handle for another process is asked for by programs that never make one (PyTorch): so the
// memory is made, and its export is refused.
bool may_be_exported(CUmemAllocationHandleType t) {
  return t != CU_MEM_HANDLE_TYPE_NONE && t != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

CUresult check(const CUmemAllocationProp *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!p || p->type == CU_MEM_ALLOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return refuse("memory of cuMemCreate that is not pinned", kDevicesOnly);
  if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return refuse("memory of cuMemCreate on the host", kDevicesOnly);
  if (may_be_exported(p->requestedHandleTypes))
    return refuse("memory of cuMemCreate with such a handle",
                  "memory cannot be shared with another process");
  if (p->allocFlags.usage != 0)
    return refuse("memory of cuMemCreate for tiles or decompression",
                  "sparse arrays are not carried to other nodes");
  if (p->allocFlags.gpuDirectRDMACapable != 0) return CUDA_ERROR_INVALID_VALUE;
  return check_device(p->location.id);
}

CUresult check_access(u64 base, u64 bytes, const CUmemAccessDesc &a) {
  if (a.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return refuse("access of the host to memory of cuMemCreate", kDevicesOnly);
  if (CUresult e = check_device(a.location.id); e != CUDA_SUCCESS) return e;
  for (CUdevice device : virtual_memory().devices_in(base, bytes))
    if (device != a.location.id) return refuse("access to memory by another device", kNoPeers);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult entry_cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                             CUmemAllocationGranularity_flags) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = check(prop);
  if (e == CUDA_SUCCESS) *bytes = Memory::kGranularity;
  return e;
}

CUresult entry_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr wanted,
                                   unsigned long long flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  u64 base = 0;
  CUresult e = virtual_memory().reserve(bytes, align, wanted, base);
  if (e == CUDA_SUCCESS) *out = base;
  return e;
}

CUresult entry_cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  CUresult e = ready();
  return e == CUDA_SUCCESS ? virtual_memory().free(base, bytes) : e;
}

CUresult entry_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                           const CUmemAllocationProp *prop, unsigned long long flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = check(prop); e != CUDA_SUCCESS) return e;
  CUmemAllocationProp kept = *prop;
  kept.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;  // which is only a wish
  u64 number = 0;
  CUresult e = virtual_memory().make(bytes, kept, number);
  if (e == CUDA_SUCCESS) *out = number;
  return e;
}

CUresult entry_cuMemRelease(CUmemGenericAllocationHandle handle) {
  CUresult e = ready();
  return e == CUDA_SUCCESS ? virtual_memory().release(handle) : e;
}

CUresult entry_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  u64 number = 0;
  CUresult e = virtual_memory().retain_at(number_of(address), number);
  if (e == CUDA_SUCCESS) *out = number;
  return e;
}

CUresult entry_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                      CUmemGenericAllocationHandle handle) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  return prop ? virtual_memory().properties(handle, *prop) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return virtual_memory().map(base, bytes, handle);
}

CUresult entry_cuMemUnmap(CUdeviceptr base, size_t bytes) {
  CUresult e = ready();
  return e == CUDA_SUCCESS ? virtual_memory().unmap(base, bytes) : e;
}

CUresult entry_cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *all,
                              size_t n) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!all || n == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    if (CUresult e = check_access(base, bytes, all[i]); e != CUDA_SUCCESS) return e;
  return virtual_memory().set_access(base, bytes, all[n - 1].flags);
}

CUresult entry_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                              CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!flags || !location) return CUDA_ERROR_INVALID_VALUE;
  std::optional<CUmemAccess_flags> access = virtual_memory().access_at(p);
  if (!access || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (check_device(location->id) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUdevice> own = virtual_memory().devices_in(p, 1);
  bool is_own = !own.empty() && own.front() == location->id;
  *flags = is_own ? *access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
