// SPDX-License-Identifier: Apache-2.0
//
// Managed memory, and advice on where it should be. The memory is on both sides in any case, so
// advice is checked and has no effect.
#include <cstring>

#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

CUresult check_managed(CUdeviceptr p, size_t bytes) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::optional<Allocation> a = memory().find(p);
  bool managed = a && a->sharing == Sharing::Managed && bytes <= a->bytes - (p - a->base);
  return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult entry_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  bool valid = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (!out || bytes == 0 || !valid) return CUDA_ERROR_INVALID_VALUE;
  u64 base = 0;
  CUresult e = memory().allocate(current_context(), bytes, base, Sharing::Managed);
  if (e != CUDA_SUCCESS) return e;
  e = shared_memory().begin(*memory().find(base), base);
  if (e != CUDA_SUCCESS)
    memory().release(base);
  else
    *out = base;
  return e;
}

CUresult entry_cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise, CUdevice) {
  return check_managed(p, bytes);
}
CUresult entry_cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise, CUmemLocation) {
  return check_managed(p, bytes);
}
CUresult entry_cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice, CUstream) {
  return check_managed(p, bytes);
}
CUresult entry_cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation, unsigned flags,
                                     CUstream) {
  return flags == 0 ? check_managed(p, bytes) : CUDA_ERROR_INVALID_VALUE;
}
CUresult entry_cuStreamAttachMemAsync(CUstream, CUdeviceptr p, size_t, unsigned) {
  return check_managed(p, 0);
}

// As without any advice.
CUresult entry_cuMemRangeGetAttribute(void *out, size_t bytes, CUmem_range_attribute what,
                                      CUdeviceptr p, size_t count) {
  if (!out || bytes < 4 || bytes % 4 != 0 || count == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = check_managed(p, count); e != CUDA_SUCCESS) return e;
  int value = what == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : int{CU_DEVICE_INVALID};
  bool known = what >= CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
               what <= CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
  if (!known) return CUDA_ERROR_NOT_SUPPORTED;
  std::memset(out, 0, bytes);
  size_t values = what == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? bytes / sizeof value : 1;
  for (size_t i = 0; i < values; i++)
    std::memcpy(static_cast<std::byte *>(out) + i * sizeof value, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult entry_cuMemRangeGetAttributes(void **out, size_t *bytes, CUmem_range_attribute *what,
                                       size_t n, CUdeviceptr p, size_t count) {
  if (!out || !bytes || !what || n == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    if (CUresult e = entry_cuMemRangeGetAttribute(out[i], bytes[i], what[i], p, count);
        e != CUDA_SUCCESS)
      return e;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
