// SPDX-License-Identifier: Apache-2.0
//
// The entries of stream-ordered memory. What pools.h does not serve is the driver's.
#include <algorithm>

#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {
namespace {

using PoolPointer = std::shared_ptr<Pools::Pool>;

// False: the driver does not tell the stream's context, for example that of a green context.
bool find_place(CUstream stream, bool per_thread, StreamPlace &place) {
  place.stream = stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
  return driver().cuStreamGetCtx != nullptr &&
         driver().cuStreamGetCtx(place.stream, &place.context) == CUDA_SUCCESS &&
         place.context != nullptr;
}

// The pool that is current for the stream's device.
PoolPointer current_pool(const StreamPlace &place) {
  CurrentContext current(place.context);
  CUdevice device = 0;
  CUmemoryPool handle = nullptr;
  if (driver().cuDeviceGetMemPool == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver().cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS)
    return nullptr;
  return pools().find_pool(handle);
}

CUresult make_in_order(const PoolPointer &pool, size_t bytes, const StreamPlace &place,
                       CUdeviceptr &out) {
  u64 base = 0;
  auto make = [&] { return pools().allocate(pool, bytes, place, base); };
  CUresult e = with_memory(make);
  if (e == CUDA_ERROR_OUT_OF_MEMORY) {
    // The driver, too, waits for frees before it gives up.
    CurrentContext current(place.context);
    if (driver().cuCtxSynchronize() == CUDA_SUCCESS) e = with_memory(make);
  }
  if (e == CUDA_SUCCESS) out = base;
  return e;
}

CUresult allocate_in_order(const PoolPointer &pool, size_t bytes, const StreamPlace &place,
                           CUdeviceptr &out) {
  u64 base = 0;
  if (pools().allocate_from_freed(pool, bytes, place, base)) {
    out = base;
    return CUDA_SUCCESS;
  }
  return make_with_manager(Pools::bytes_to_reserve(*pool, bytes),
                           [&] { return make_in_order(pool, bytes, place, out); });
}

// `find_pool(place)`: the pool to allocate from; null: the driver's. While a stream is being
// captured, our calls could end the capture, and the allocation may be part of it.
template <class FindPool, class Real>
CUresult allocate(CUdeviceptr *out, size_t bytes, CUstream stream, bool per_thread,
                  FindPool find_pool, Real real) {
  StreamPlace place;
  PoolPointer pool;
  if (out != nullptr && bytes >= kLeastPoolBytes && bytes <= kLargestBytes && !capturing() &&
      find_place(stream, per_thread, place))
    pool = find_pool(place);
  return pool ? allocate_in_order(pool, bytes, place, *out) : with_memory(real);
}

}  // namespace

CUresult entry_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
  PASS_OR_RETURN(pass);
  return allocate(out, bytes, stream, false, current_pool,
                  [&] { return REAL(cuMemAllocAsync)(out, bytes, stream); });
}

CUresult entry_cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
  PASS_OR_RETURN(pass);
  return allocate(out, bytes, stream, true, current_pool,
                  [&] { return REAL(cuMemAllocAsync_ptsz)(out, bytes, stream); });
}

CUresult entry_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                       CUstream stream) {
  PASS_OR_RETURN(pass);
  return allocate(
      out, bytes, stream, false, [&](const StreamPlace &) { return pools().find_pool(pool); },
      [&] { return REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream); });
}

CUresult entry_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                            CUstream stream) {
  PASS_OR_RETURN(pass);
  return allocate(
      out, bytes, stream, true, [&](const StreamPlace &) { return pools().find_pool(pool); },
      [&] { return REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream); });
}

CUresult entry_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuMemPoolCreate)(out, props);
  if (e == CUDA_SUCCESS) pools().created(*out, *props);
  return e;
}

CUresult entry_cuMemPoolDestroy(CUmemoryPool handle) {
  PASS_OR_RETURN(pass);
  PoolPointer pool = pools().find_pool(handle);
  CUresult e = REAL(cuMemPoolDestroy)(handle);
  if (e == CUDA_SUCCESS) report_freed(pools().destroyed(handle, pool));
  return e;
}

CUresult entry_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *access,
                                  size_t count) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuMemPoolSetAccess)(handle, access, count);
  PoolPointer pool = e == CUDA_SUCCESS && count > 0 ? pools().find_pool(handle) : nullptr;
  return pool ? pools().set_access(*pool, {access, count}) : e;
}

CUresult entry_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                     void *value) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuMemPoolSetAttribute)(handle, attribute, value);
  PoolPointer pool = e == CUDA_SUCCESS ? pools().find_pool(handle) : nullptr;
  if (pool) pools().set_attribute(*pool, attribute, value);
  return e;
}

CUresult entry_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                     void *value) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuMemPoolGetAttribute)(handle, attribute, value);
  PoolPointer pool = e == CUDA_SUCCESS ? pools().find_pool(handle) : nullptr;
  if (pool) pools().add_to_attribute(*pool, attribute, value);
  return e;
}

CUresult entry_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  PASS_OR_RETURN(pass);
  cuuint64_t drivers = 0;
  CUresult e = REAL(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &drivers);
  PoolPointer pool = e == CUDA_SUCCESS ? pools().find_pool(handle) : nullptr;
  if (!pool) return REAL(cuMemPoolTrimTo)(handle, keep);
  u64 freed = 0;
  u64 ours = pools().trim(*pool, keep, drivers, freed);
  report_freed(freed);
  return REAL(cuMemPoolTrimTo)(handle, keep - std::min<u64>(keep, ours));
}

}  // namespace ckpt::cuda
