// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait, or ask whether there is something to wait for. After them the program may use
// memory that it shares with the device.
#include "remote/cuda/client/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

template <class F>
CUresult around(u64 stream, F wait) {
  if (CUresult e = shared_memory().before_wait(); e != CUDA_SUCCESS) return e;
  CUresult e = wait();
  return e == CUDA_SUCCESS ? shared_memory().after_wait(stream) : e;
}

}  // namespace

CUresult entry_cuCtxSynchronize() {
  return around(SharedMemory::kAllStreams, [&] { return ask_cuCtxSynchronize(); });
}
CUresult entry_cuCtxSynchronize_v2(CUcontext context) {
  return around(SharedMemory::kEvent, [&] { return ask_cuCtxSynchronize_v2(context); });
}
CUresult entry_cuStreamSynchronize(CUstream stream) {
  return around(number_of(stream), [&] { return ask_cuStreamSynchronize(stream); });
}
CUresult entry_cuStreamQuery(CUstream stream) {
  return around(number_of(stream), [&] { return ask_cuStreamQuery(stream); });
}
CUresult entry_cuEventSynchronize(CUevent event) {
  return around(SharedMemory::kEvent, [&] { return ask_cuEventSynchronize(event); });
}
CUresult entry_cuEventQuery(CUevent event) {
  return around(SharedMemory::kEvent, [&] { return ask_cuEventQuery(event); });
}

}  // namespace ckpt::remote::cuda
