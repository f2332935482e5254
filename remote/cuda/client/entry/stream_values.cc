// SPDX-License-Identifier: Apache-2.0
//
// Work of a stream that writes a single value, or waits for one (CUDA driver API, "Stream Memory
// Operations"). The server's driver judges each: whether the device can, and which flags it knows.
#include <algorithm>

#include "remote/cuda/client/copies/detours.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/memory/shared_memory.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

CUresult send_value(CUstream stream, CUdeviceptr at, u64 value, size_t bytes, unsigned flags,
                    bool wait) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (is_capturing(stream))
    return refuse("a stream memory operation while a stream records",
                  "waits for and writes of single values are no nodes of graphs on other nodes");
  u64 address = at, number_of_stream = number_of(stream);
  if (u64 shared = shared_memory().on_device(address, bytes)) address = shared;
  if (are_apart(context_with(address), context_of_stream(number_of_stream)))
    return refuse("a stream memory operation on another device's memory",
                  "that device is of another node than the stream");
  if (shared_memory().uses(address, bytes))
    if (CUresult e = shared_memory().before_work(number_of_stream); e != CUDA_SUCCESS) return e;
  Writer w;
  w.put(number_of_stream).put(address).put(value).put(static_cast<u32>(flags));
  Site site = site_of_handle(number_of_stream);
  return ask(Op::StreamValue, site, w.put(static_cast<u8>(bytes)).put(u8{wait}));
}

CUresult send_operation(CUstream stream, const CUstreamBatchMemOpParams &p) {
  const auto &wait = p.waitValue;
  const auto &write = p.writeValue;
  switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return send_value(stream, wait.address, wait.value, sizeof wait.value, wait.flags, true);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return send_value(stream, wait.address, wait.value64, sizeof wait.value64, wait.flags, true);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return send_value(stream, write.address, write.value, sizeof write.value, write.flags, false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return send_value(stream, write.address, write.value64, sizeof write.value64, write.flags,
                        false);
    default:
      return refuse("a barrier or flush of cuStreamBatchMemOp",
                    "only single values are written and waited for on other nodes");
  }
}

bool is_value(const CUstreamBatchMemOpParams &p) {
  return p.operation != CU_STREAM_MEM_OP_BARRIER &&
         p.operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
}

// As the operations one by one. Nothing is sent if one of them is refused by name.
CUresult send_batch(CUstream stream, unsigned n, const CUstreamBatchMemOpParams *all,
                    unsigned flags) {
  constexpr unsigned kMost = 256;
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!all || n == 0 || n > kMost || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto *refused = std::find_if_not(all, all + n, is_value);
  if (refused != all + n) return send_operation(stream, *refused);
  for (unsigned i = 0; i < n; i++)
    if (CUresult e = send_operation(stream, all[i]); e != CUDA_SUCCESS) return e;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult entry_cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *all,
                                  unsigned flags) {
  return send_batch(stream, n, all, flags);
}
CUresult entry_cuStreamBatchMemOp_v2(CUstream stream, unsigned n, CUstreamBatchMemOpParams *all,
                                     unsigned flags) {
  return send_batch(stream, n, all, flags);
}

#define VALUE(symbol, type, wait)                                                         \
  CUresult entry_##symbol(CUstream stream, CUdeviceptr at, type v, unsigned flags) {      \
    return send_value(stream, at, v, sizeof v, flags, wait);                              \
  }                                                                                       \
  CUresult entry_##symbol##_v2(CUstream stream, CUdeviceptr at, type v, unsigned flags) { \
    return send_value(stream, at, v, sizeof v, flags, wait);                              \
  }
VALUE(cuStreamWriteValue32, cuuint32_t, false)
VALUE(cuStreamWriteValue64, cuuint64_t, false)
VALUE(cuStreamWaitValue32, cuuint32_t, true)
VALUE(cuStreamWaitValue64, cuuint64_t, true)
#undef VALUE

}  // namespace ckpt::remote::cuda
