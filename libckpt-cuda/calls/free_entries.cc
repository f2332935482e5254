// SPDX-License-Identifier: Apache-2.0
//
// cuMemFree and cuMemFreeAsync. Either frees memory of cuMemAlloc, of a pool, and managed memory.
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/memory/host_memory.h"
#include "libckpt-cuda/memory/managed_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {
namespace {

// cuMemFree waits for all enqueued work, which may use the memory, as the driver's own does.
CUresult wait_for(CUcontext context) {
  CurrentContext current(context);
  return current.status() == CUDA_SUCCESS ? driver().cuCtxSynchronize() : current.status();
}

CUresult free_on_host(CUdeviceptr p) {
  CUresult e = driver().cuCtxSynchronize();
  managed_memory().erase(p);
  forget_host_memory(reinterpret_cast<void *>(p));
  CUresult freed = driver().cuMemFreeHost(reinterpret_cast<void *>(p));
  return e != CUDA_SUCCESS ? e : freed;
}

// The allocation that begins at `p`; null: `p` is not ours to free.
std::optional<Allocation> allocation_at(CUdeviceptr p) {
  std::optional<Allocation> a = memory().find(p);
  if (!a) a = paired_memory().find(p);
  return a && a->base == p ? a : std::nullopt;
}

void release_allocation(CUdeviceptr p) {
  if (paired_memory().find(p))
    report_freed(paired_memory().release(p));
  else
    release_with_manager(p);
}

CUresult freed_by_driver(CUresult e, CUdeviceptr p) {
  if (e == CUDA_SUCCESS) managed_memory().erase(p);
  return e;
}

// Memory of a pool, freed at once. The driver's own does not wait for work that uses it.
CUresult free_pool_memory(CUdeviceptr p) {
  u64 freed = 0;
  CUresult e = driver().cuCtxSynchronize();
  std::optional<CUresult> released = pools().release(p, nullptr, freed);
  report_freed(freed);
  return e != CUDA_SUCCESS || !released ? e : *released;
}

// During a capture a free becomes a node of the graph, and the driver knows no memory of ours.
bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return capturing() && (driver().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
                         status != CU_STREAM_CAPTURE_STATUS_NONE);
}

// Without the stream's context no event can be recorded in it.
CUresult free_pool_memory(CUdeviceptr p, CUstream stream) {
  StreamPlace place{stream, nullptr};
  bool known = driver().cuStreamGetCtx(stream, &place.context) == CUDA_SUCCESS;
  CUresult waited = known ? CUDA_SUCCESS : driver().cuStreamSynchronize(stream);
  if (waited != CUDA_SUCCESS) return waited;
  u64 freed = 0;
  std::optional<CUresult> e = pools().release(p, known ? &place : nullptr, freed);
  report_freed(freed);
  return e.value_or(CUDA_ERROR_INVALID_VALUE);
}

// `stream` is no null handle for the per-thread default stream.
template <class Real>
CUresult free_in_order(CUdeviceptr p, CUstream stream, Real real) {
  if (std::optional<Pools::Allocation> a = pools().find(p); a && a->base == p)
    return is_captured(stream) ? real() : free_pool_memory(p, stream);
  if (!allocation_at(p)) return freed_by_driver(real(), p);
  // A block of cuMemAlloc cannot be freed in stream order.
  CUresult e = driver().cuStreamSynchronize(stream);
  if (e == CUDA_SUCCESS) release_allocation(p);
  return e;
}

}  // namespace

CUresult entry_cuMemFree_v2(CUdeviceptr p) {
  PASS_OR_RETURN(pass);
  if (managed_memory().on_host(p)) return free_on_host(p);
  if (std::optional<Pools::Allocation> a = pools().find(p); a && a->base == p)
    return free_pool_memory(p);
  std::optional<Allocation> a = allocation_at(p);
  if (!a) return freed_by_driver(REAL(cuMemFree_v2)(p), p);
  CUresult e = wait_for(a->context);
  release_allocation(p);
  return e;
}

CUresult entry_cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  PASS_OR_RETURN(pass);
  return free_in_order(p, stream, [&] { return REAL(cuMemFreeAsync)(p, stream); });
}

CUresult entry_cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream stream) {
  PASS_OR_RETURN(pass);
  CUstream own = stream == nullptr ? CU_STREAM_PER_THREAD : stream;
  return free_in_order(p, own, [&] { return REAL(cuMemFreeAsync_ptsz)(p, stream); });
}

}  // namespace ckpt::cuda
