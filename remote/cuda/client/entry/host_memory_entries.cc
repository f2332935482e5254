// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/memory/host_memory.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

// The device gets a copy of this page-locked memory. `sharing`: Mapped, which sets `host`, or
// Apart.
CUresult share(u64 bytes, Sharing sharing, u64 &host, u64 &device) {
  u64 context = current_context();
  if (CUresult e = memory().allocate(context, bytes, device, sharing); e != CUDA_SUCCESS) return e;
  if (sharing == Sharing::Mapped) host = device;
  CUresult e = shared_memory().begin(*memory().find(device), host);
  if (e != CUDA_SUCCESS) memory().release(device);
  return e;
}

// Its blocks are what the driver knows then (memory.h).
bool is_in_arena(const HostRange &r) { return r.device != 0 && r.device == r.base; }

CUresult add(const HostRange &r) {
  CUresult e = host_memory().add(r);
  Native *native = link().native();
  if (e == CUDA_SUCCESS && native && !is_in_arena(r))
    native->lock_pages(r.context, r.base, r.bytes);
  return e;
}

CUresult allocate_on_host(void **out, size_t bytes, unsigned flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  HostRange r{0, bytes, flags, false, current_context(), 0};
  if (flags & CU_MEMHOSTALLOC_DEVICEMAP) {
    if (CUresult e = share(bytes, Sharing::Mapped, r.base, r.device); e != CUDA_SUCCESS) return e;
  } else {
    void *p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    r.base = number_of(p);
  }
  *out = reinterpret_cast<void *>(r.base);
  return add(r);
}

void end_sharing(const HostRange &r) {
  Native *native = link().native();
  if (native && !is_in_arena(r)) native->unlock_pages(r.base);
  if (r.device == 0) return;
  shared_memory().end(r.base);
  memory().release(r.device);
}

}  // namespace

CUresult entry_cuMemAllocHost_v2(void **out, size_t bytes) {
  return allocate_on_host(out, bytes, 0);
}

CUresult entry_cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  return allocate_on_host(out, bytes, flags);
}

CUresult entry_cuMemFreeHost(void *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  HostRange r;
  if (CUresult e = host_memory().remove(number_of(p), false, r); e != CUDA_SUCCESS) return e;
  CUresult e = settle(r.context);
  end_sharing(r);
  if (r.device != r.base) ::munmap(p, r.bytes);
  return e;
}

CUresult entry_cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
    return refuse("cuMemHostRegister with these flags",
                  "the device cannot reach memory of this node");
  return add({number_of(p), bytes, flags, true, current_context(), 0});
}

CUresult entry_cuMemHostUnregister(void *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  HostRange r;
  if (CUresult e = host_memory().remove(number_of(p), true, r); e != CUDA_SUCCESS) return e;
  CUresult e = r.device ? settle(r.context) : CUDA_SUCCESS;
  end_sharing(r);
  return e;
}

// Memory that was not allocated as mapped is shared from here on: comparing all page-locked memory
// with each launch would be slow, and most of it is used for copies only.
CUresult entry_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::optional<HostRange> r = host_memory().find(number_of(p));
  if (!out || flags != 0 || !r) return CUDA_ERROR_INVALID_VALUE;
  if (r->device == 0) {
    if (CUresult e = share(r->bytes, Sharing::Apart, r->base, r->device); e != CUDA_SUCCESS)
      return e;
    host_memory().set_device(r->base, r->device);
  }
  *out = r->device + (number_of(p) - r->base);
  return CUDA_SUCCESS;
}

CUresult entry_cuMemHostGetFlags(unsigned *flags, void *p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::optional<HostRange> r = host_memory().find(number_of(p));
  if (!flags || !r) return CUDA_ERROR_INVALID_VALUE;
  *flags = r->flags;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
