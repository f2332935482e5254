// SPDX-License-Identifier: Apache-2.0
//
// Calls for streams and events that a capture changes, and those that wait.
#include "remote/cuda/client/copies/detours.h"
#include "remote/cuda/client/copies/last_wait.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

template <class Call>
CUresult unless_capturing(CUstream stream, Call call) {
  return is_capturing(stream) ? invalidate_capture(stream) : waiting(number_of(stream), call);
}

// As the last call has shown, if nothing else can have given it something to do.
bool is_idle(CUstream stream) {
  return can_wait_there() && !is_capturing(stream) &&
         last_wait().still_idle(current_context(), number_of(stream), link().calls());
}

template <class Call>
CUresult unless_captured(CUevent event, Call call) {
  CUresult e = check_event(event);
  return e == CUDA_SUCCESS ? waiting(SharedMemory::kEvent, call) : e;
}

template <class Call>
CUresult record(CUevent event, CUstream stream, unsigned flags, Call call) {
  if (may_be_captured())
    if (std::optional<CUresult> e =
            captured_record(event, stream, (flags & CU_EVENT_RECORD_EXTERNAL) != 0))
      return *e;
  return call();
}

}  // namespace

CUresult entry_cuStreamSynchronize(CUstream stream) {
  if (is_idle(stream)) return CUDA_SUCCESS;
  return unless_capturing(stream, [&] { return ask_cuStreamSynchronize(stream); });
}
CUresult entry_cuStreamQuery(CUstream stream) {
  if (is_idle(stream)) return CUDA_SUCCESS;
  return unless_capturing(stream, [&] { return ask_cuStreamQuery(stream); });
}
CUresult entry_cuEventSynchronize(CUevent event) {
  return unless_captured(event, [&] { return ask_cuEventSynchronize(event); });
}
CUresult entry_cuEventQuery(CUevent event) {
  return unless_captured(event, [&] { return ask_cuEventQuery(event); });
}

CUresult entry_cuEventRecord(CUevent event, CUstream stream) {
  return record(event, stream, 0, [&] { return send_cuEventRecord(event, stream); });
}
CUresult entry_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record(event, stream, flags,
                [&] { return ask_cuEventRecordWithFlags(event, stream, flags); });
}

CUresult entry_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  if (may_be_captured())
    if (std::optional<CUresult> e =
            captured_wait(stream, event, (flags & CU_EVENT_WAIT_EXTERNAL) != 0))
      return *e;
  return wait_for_event(stream, event, flags);
}

CUresult entry_cuCtxSynchronize() {
  if (CUresult e = check_context(current_context()); e != CUDA_SUCCESS) return e;
  return waiting(SharedMemory::kAllStreams, ask_cuCtxSynchronize);
}
CUresult entry_cuCtxSynchronize_v2(CUcontext context) {
  CUresult e = check_context(context ? number_of(context) : current_context());
  if (e != CUDA_SUCCESS) return e;
  return waiting(SharedMemory::kEvent, [&] { return ask_cuCtxSynchronize_v2(context); });
}

CUresult entry_cuStreamDestroy_v2(CUstream stream) {
  CUresult e = ask_cuStreamDestroy_v2(stream);
  if (e == CUDA_SUCCESS) forget_capturing_stream(stream);
  return e;
}
CUresult entry_cuEventDestroy_v2(CUevent event) {
  CUresult e = ask_cuEventDestroy_v2(event);
  if (e == CUDA_SUCCESS) forget_captured_event(event);
  return e;
}

}  // namespace ckpt::remote::cuda
