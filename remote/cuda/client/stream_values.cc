// SPDX-License-Identifier: Apache-2.0
//
// Work of a stream that writes a single value, or waits for one (CUDA driver API, "Stream Memory
// Operations"). The server's driver judges each: whether the device can, and which flags it knows.
#include "remote/cuda/client/client.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/shared_memory.h"

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
  if (shared_memory().uses(address, bytes))
    if (CUresult e = shared_memory().before_work(number_of_stream); e != CUDA_SUCCESS) return e;
  Writer w;
  w.put(number_of_stream).put(address).put(value).put(static_cast<u32>(flags));
  return note_error(ask(Op::StreamValue, w.put(static_cast<u8>(bytes)).put(u8{wait})));
}

}  // namespace

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
