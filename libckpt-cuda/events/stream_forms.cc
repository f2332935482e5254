// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/events/stream_forms.h"

namespace ckpt::cuda {

CUresult StreamForms::is_capturing(bool &out) const {
  Id id = per_thread ? Id::id_cuStreamIsCapturing_ptsz : Id::id_cuStreamIsCapturing;
  auto real = reinterpret_cast<PFN_cuStreamIsCapturing_v10000>(real_entry(id));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult e = real(handle, &status);
  out = status != CU_STREAM_CAPTURE_STATUS_NONE;
  return e;
}

// What the stream has written before is visible first: no CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER.
CUresult StreamForms::write(CUdeviceptr p, u64 value) const {
  return per_thread ? REAL(cuStreamWriteValue64_v2_ptsz)(handle, p, value, 0)
                    : REAL(cuStreamWriteValue64_v2)(handle, p, value, 0);
}

CUresult StreamForms::wait(CUdeviceptr p, u64 value) const {
  return per_thread ? REAL(cuStreamWaitValue64_v2_ptsz)(handle, p, value, CU_STREAM_WAIT_VALUE_GEQ)
                    : REAL(cuStreamWaitValue64_v2)(handle, p, value, CU_STREAM_WAIT_VALUE_GEQ);
}

}  // namespace ckpt::cuda
