// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/objects/event_times.h"

namespace ckpt::remote::cuda {

CUresult entry_cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
  CUresult e = check_event(from);
  if (e == CUDA_SUCCESS) e = check_event(to);
  return e == CUDA_SUCCESS ? elapsed_time(ms, from, to) : e;
}

CUresult entry_cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) {
  return entry_cuEventElapsedTime(ms, from, to);
}

}  // namespace ckpt::remote::cuda
