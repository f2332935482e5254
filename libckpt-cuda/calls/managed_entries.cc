// SPDX-License-Identifier: Apache-2.0
//
// cuMemAllocManaged, and what the program asks about such memory. Advice is checked and has no
// effect on memory of ours (HINT in cuda.api), so the answers are those without any advice.
#include <algorithm>
#include <cstring>

#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/memory/host_memory.h"
#include "libckpt-cuda/memory/managed_memory.h"
#include "libckpt-cuda/memory/paired_memory.h"

namespace ckpt::cuda {
namespace {

// Page-locked host memory has one address for the host and every device, as managed memory has.
CUresult allocate_on_host(CUdeviceptr *out, size_t bytes) {
  void *p = nullptr;
  CUresult e =
      driver().cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (e != CUDA_SUCCESS) return e;
  note_host_memory(p, bytes);
  *out = reinterpret_cast<CUdeviceptr>(p);
  return e;
}

CUresult allocate_pair(CUdeviceptr *out, size_t bytes) {
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  u64 base = 0;
  CUresult e = make_with_manager(paired_blocks().bytes_to_reserve(context, bytes), [&] {
    return with_memory([&] { return paired_memory().allocate(context, bytes, base); });
  });
  if (e == CUDA_SUCCESS) *out = base;
  return e;
}

// Of memory of ours that holds the whole range.
CUresult range_attribute(void *out, size_t bytes, CUmem_range_attribute what) {
  if (out == nullptr || bytes < 4 || bytes % 4 != 0) return CUDA_ERROR_INVALID_VALUE;
  bool known = what >= CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
               what <= CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
  if (!known) return CUDA_ERROR_NOT_SUPPORTED;
  int value = what == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : int{CU_DEVICE_INVALID};
  std::memset(out, 0, bytes);
  size_t values = what == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? bytes / sizeof value : 1;
  for (size_t i = 0; i < values; i++)
    std::memcpy(static_cast<std::byte *>(out) + i * sizeof value, &value, sizeof value);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult entry_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
  PASS_OR_RETURN(pass);
  bool on_host = ManagedMemory::wanted_on_host(), kept = ManagedMemory::wanted_kept();
  if (on_host || kept) {
    bool valid = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (out == nullptr || bytes == 0 || !valid) return CUDA_ERROR_INVALID_VALUE;
  }
  if (kept) return allocate_pair(out, bytes);
  CUresult e = on_host ? allocate_on_host(out, bytes) : REAL(cuMemAllocManaged)(out, bytes, flags);
  if (e == CUDA_SUCCESS) managed_memory().insert(*out, bytes, on_host);
  return e;
}

CUresult entry_cuMemRangeGetAttribute(void *out, size_t bytes, CUmem_range_attribute what,
                                      CUdeviceptr p, size_t count) {
  HOLD_OR_RETURN(held);
  if (!paired_memory().find(p)) return REAL(cuMemRangeGetAttribute)(out, bytes, what, p, count);
  if (count == 0 || !paired_memory().holds(p, count)) return CUDA_ERROR_INVALID_VALUE;
  return range_attribute(out, bytes, what);
}

CUresult entry_cuMemRangeGetAttributes(void **out, size_t *bytes, CUmem_range_attribute *what,
                                       size_t n, CUdeviceptr p, size_t count) {
  HOLD_OR_RETURN(held);
  if (!paired_memory().find(p)) return REAL(cuMemRangeGetAttributes)(out, bytes, what, n, p, count);
  if (!out || !bytes || !what || n == 0 || count == 0 || !paired_memory().holds(p, count))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult e = CUDA_SUCCESS;
  for (size_t i = 0; i < n && e == CUDA_SUCCESS; i++)
    e = range_attribute(out[i], bytes[i], what[i]);
  return e;
}

}  // namespace ckpt::cuda
