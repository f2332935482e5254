// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/kernel_parameters.h"
#include "remote/cuda/client/code/launches.h"
#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

// The event of a launch: nullptr if the attribute is none. Both kinds may complete as late as the
// kernel does (cuda.h, CUlaunchAttributeID), so the event is recorded behind the launch.
CUevent event_in(const CUlaunchAttribute &a, unsigned &flags) {
  if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
    flags = static_cast<unsigned>(a.value.programmaticEvent.flags);
    return a.value.programmaticEvent.event;
  }
  if (a.id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) return nullptr;
  flags = static_cast<unsigned>(a.value.launchCompletionEvent.flags);
  return a.value.launchCompletionEvent.event;
}

CUresult launch_here(Native &native, const CUlaunchConfig &c, CUfunction f, void **parameters,
                     void **extra) {
  if (CUresult e = initialise_placed_variables(); e != CUDA_SUCCESS) return e;
  if (CUresult e = shared_memory().before_work(number_of(c.hStream)); e != CUDA_SUCCESS) return e;
  return note_error(native.launch(current_context(), c, number_of(here(f)), parameters, extra));
}

CUresult check_launch(const CUlaunchConfig &c, CUfunction f) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  unsigned flags = 0;
  for (const CUlaunchAttribute &a : std::span(c.attrs, c.numAttrs))
    if (CUresult e = event_in(a, flags) ? CUDA_SUCCESS : check_attribute(a); e != CUDA_SUCCESS)
      return e;
  return CUDA_SUCCESS;
}

CUresult record_events(const CUlaunchConfig &c) {
  unsigned flags = 0;
  for (const CUlaunchAttribute &a : std::span(c.attrs, c.numAttrs))
    if (CUevent event = event_in(a, flags))
      if (CUresult e = entry_cuEventRecordWithFlags(event, c.hStream, flags); e != CUDA_SUCCESS)
        return e;
  return CUDA_SUCCESS;
}

CUresult launch_alone(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra) {
  if (is_capturing(c.hStream)) return capture_launch(c, f, parameters, extra);
  if (Native *native = link().native_at(current_context()))
    return launch_here(*native, c, f, parameters, extra);
  Bytes packed;
  if (CUresult e = pack(number_of(f), parameters, extra, packed); e != CUDA_SUCCESS) return e;
  return launch_packed(c, f, packed);
}

CUresult launch(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra) {
  if (CUresult e = check_launch(c, f); e != CUDA_SUCCESS) return e;
  CUresult e = launch_alone(c, f, parameters, extra);
  return e == CUDA_SUCCESS ? record_events(c) : e;
}

}  // namespace

CUresult entry_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, CUstream stream,
                              void **parameters, void **extra) {
  return launch({gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, f, parameters, extra);
}

CUresult entry_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **parameters,
                                void **extra) {
  return config ? launch(*config, f, parameters, extra) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                         unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                         CUstream stream, void **parameters) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch({gx, gy, gz, bx, by, bz, shared, stream, &cooperative, 1}, f, parameters, nullptr);
}

CUresult entry_cuLaunchHostFunc(CUstream stream, CUhostFn f, void *data) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) return capture_host(stream, {f, data});
  return call_host(stream, [f, data] { f(data); });
}

CUresult entry_cuStreamAddCallback(CUstream stream, CUstreamCallback f, void *data,
                                   unsigned flags) {
  if (!f || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) return invalidate_capture(stream);
  return call_host(stream, [=] { f(stream, CUDA_SUCCESS, data); });
}

}  // namespace ckpt::remote::cuda
