// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {

CUresult op_arena(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>(), got = 0;
  if (!c.in.done()) return c.reject();
  CUresult e = c.server.memory.reserve(base, bytes, got);
  c.out.put(got);
  return e;
}

CUresult op_map(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  i32 device = c.in.get<i32>();
  return c.in.done() ? c.server.memory.map(base, bytes, device) : c.reject();
}

CUresult op_unmap(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  return c.in.done() ? c.server.memory.unmap(base, bytes) : c.reject();
}

CUresult op_allocate_in_order(Call &c) {
  u64 bytes = c.in.get<u64>(), pool = c.in.get<u64>(), number = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  CUstream stream = nullptr;
  if (CUresult e = stream_of(c, number, stream); e != CUDA_SUCCESS) return e;
  auto real_pool = static_cast<CUmemoryPool>(c.server.objects.real(Kind::Pool, pool));
  if (pool != 0 && !real_pool) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes > INT64_MAX || !c.server.memory.admit(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr p = 0;
  CUresult e = pool ? driver().cuMemAllocFromPoolAsync(&p, bytes, real_pool, stream)
                    : driver().cuMemAllocAsync(&p, bytes, stream);
  if (e == CUDA_SUCCESS)
    c.server.memory.add(p, bytes, true, 0);
  else
    c.server.memory.give_back(bytes);
  c.out.put(u64{p});
  return e;
}

CUresult op_free_in_order(Call &c) {
  u64 p = c.in.get<u64>(), number = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  CUstream stream = nullptr;
  if (CUresult e = stream_of(c, number, stream); e != CUDA_SUCCESS) return e;
  if (!c.server.memory.remove(p)) return CUDA_ERROR_INVALID_VALUE;
  return driver().cuMemFreeAsync(p, stream);
}

CUresult op_settle(Call &c) {
  c.waits = true;
  return c.in.done() ? driver().cuCtxSynchronize() : c.reject();
}

}  // namespace ckpt::remote::cuda
