// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait, or ask whether there is something to wait for. After them the program may use
// memory that it shares with the device.
#include "remote/cuda/client/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

CUresult after(CUresult waited, u64 stream) {
  return waited == CUDA_SUCCESS ? shared_memory().after_wait(stream) : waited;
}

}  // namespace

CUresult entry_cuCtxSynchronize() {
  return after(ask_cuCtxSynchronize(), SharedMemory::kAllStreams);
}
CUresult entry_cuCtxSynchronize_v2(CUcontext context) {
  return after(ask_cuCtxSynchronize_v2(context), SharedMemory::kEvent);
}
CUresult entry_cuStreamSynchronize(CUstream stream) {
  return after(ask_cuStreamSynchronize(stream), number_of(stream));
}
CUresult entry_cuStreamQuery(CUstream stream) {
  return after(ask_cuStreamQuery(stream), number_of(stream));
}
CUresult entry_cuEventSynchronize(CUevent event) {
  return after(ask_cuEventSynchronize(event), SharedMemory::kEvent);
}
CUresult entry_cuEventQuery(CUevent event) {
  return after(ask_cuEventQuery(event), SharedMemory::kEvent);
}

}  // namespace ckpt::remote::cuda
