// SPDX-License-Identifier: Apache-2.0
//
// Writes of single values and waits for them, in a stream. A wait that never ends holds its own
// stream only, and ends with this process.
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

template <class F, class T>
CUresult call(F *entry, CUstream stream, u64 address, T value, u32 flags) {
  return entry ? entry(stream, address, value, flags) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult op_stream_value(Call &c) {
  u64 number = c.in.get<u64>(), address = c.in.get<u64>(), value = c.in.get<u64>();
  u32 flags = c.in.get<u32>();
  u8 bytes = c.in.get<u8>();
  bool wait = c.in.get<u8>() != 0;
  if (!c.in.done() || (bytes != 4 && bytes != 8)) return c.reject();
  CUstream stream = nullptr;
  if (CUresult e = stream_of(c, number, stream); e != CUDA_SUCCESS) return e;
  if (address % bytes != 0 || !c.server.memory.holds(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const Driver &d = driver();
  if (bytes == 8)
    return call(wait ? d.cuStreamWaitValue64_v2 : d.cuStreamWriteValue64_v2, stream, address,
                static_cast<cuuint64_t>(value), flags);
  return call(wait ? d.cuStreamWaitValue32_v2 : d.cuStreamWriteValue32_v2, stream, address,
              static_cast<cuuint32_t>(value), flags);
}

}  // namespace ckpt::remote::cuda
