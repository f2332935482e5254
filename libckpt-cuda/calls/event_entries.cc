// SPDX-License-Identifier: Apache-2.0
//
// Events that processes may share, and the calls that record them or wait for them. The driver
// answers for all other events alone.
#include "libckpt-cuda/calls/private_events.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {
namespace {

using Event = InterprocessEvents::Event;

// A forked child has the locks of its parent as they were.
Event shared_event(CUevent event) {
  return g_refusal == CUDA_SUCCESS ? interprocess_events().find(event) : nullptr;
}

// Submits work, so it passes the gate. In a capture, an external recording or wait becomes a node.
template <class Call, class Real>
CUresult on_stream(Id id, const Event &e, CUevent event, const StreamForms &stream, bool external,
                   Call call, Real real) {
  PASS_OR_RETURN(pass);
  bool capturing = false;
  if (stream.is_capturing(capturing) != CUDA_SUCCESS) return real();
  if (!capturing) return call(*e);
  CUresult allowed = external ? make_private(id, event) : CUDA_SUCCESS;
  return allowed == CUDA_SUCCESS ? real() : allowed;
}

template <class Real>
CUresult record(Id id, CUevent event, StreamForms stream, unsigned flags, Real real) {
  Event e = shared_event(event);
  if (!e) {
    HOLD_OR_RETURN(held);
    return real();
  }
  return on_stream(
      id, e, event, stream, (flags & CU_EVENT_RECORD_EXTERNAL) != 0,
      [&](InterprocessEvent &shared) {
        return flags != 0 ? real() : interprocess_events().record(shared, stream, real);
      },
      real);
}

template <class Real>
CUresult wait(Id id, CUevent event, StreamForms stream, unsigned flags, Real real) {
  Event e = shared_event(event);
  if (!e) {
    HOLD_OR_RETURN(held);
    return real();
  }
  return on_stream(
      id, e, event, stream, (flags & CU_EVENT_WAIT_EXTERNAL) != 0,
      [&](InterprocessEvent &shared) {
        return flags != 0 ? real() : interprocess_events().wait(shared, stream, real);
      },
      real);
}

template <class Real>
CUresult destroy(CUevent event, Real real) {
  HOLD_OR_RETURN(held);
  Event e = interprocess_events().find(event);
  // Another thread may get the handle for a new event as soon as it is free.
  if (e) interprocess_events().forget(event);
  return real();
}

}  // namespace

CUresult entry_cuEventCreate(CUevent *out, unsigned int flags) {
  HOLD_OR_RETURN(held);
  ContextInfo context;
  if ((flags & CU_EVENT_INTERPROCESS) == 0 || current_context(context) != CUDA_SUCCESS ||
      reason_against_events(context.device) != nullptr)
    return REAL(cuEventCreate)(out, flags);
  if (out == nullptr || (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = REAL(cuEventCreate)(out, flags & ~static_cast<unsigned>(CU_EVENT_INTERPROCESS));
  if (e != CUDA_SUCCESS) return e;
  auto made = std::make_shared<InterprocessEvent>();
  made->context = context.handle;
  interprocess_events().add(*out, std::move(made));
  return e;
}

CUresult entry_cuEventDestroy(CUevent event) {
  return destroy(event, [&] { return REAL(cuEventDestroy)(event); });
}
CUresult entry_cuEventDestroy_v2(CUevent event) {
  return destroy(event, [&] { return REAL(cuEventDestroy_v2)(event); });
}

CUresult entry_cuEventQuery(CUevent event) {
  HOLD_OR_RETURN(held);
  auto real = [&] { return REAL(cuEventQuery)(event); };
  Event e = interprocess_events().find(event);
  return e ? interprocess_events().query(*e, real) : real();
}

CUresult entry_cuEventSynchronize(CUevent event) {
  HOLD_OR_RETURN(held);
  auto real = [&] { return REAL(cuEventSynchronize)(event); };
  Event e = interprocess_events().find(event);
  return e ? interprocess_events().synchronize(event, *e, real) : real();
}

#define RECORD(symbol, per_thread)                                 \
  CUresult entry_##symbol(CUevent event, CUstream stream) {        \
    return record(Id::id_##symbol, event, {stream, per_thread}, 0, \
                  [&] { return REAL(symbol)(event, stream); });    \
  }
RECORD(cuEventRecord, false)
RECORD(cuEventRecord_ptsz, true)

#define RECORD_WITH_FLAGS(symbol, per_thread)                                   \
  CUresult entry_##symbol(CUevent event, CUstream stream, unsigned int flags) { \
    return record(Id::id_##symbol, event, {stream, per_thread}, flags,          \
                  [&] { return REAL(symbol)(event, stream, flags); });          \
  }
RECORD_WITH_FLAGS(cuEventRecordWithFlags, false)
RECORD_WITH_FLAGS(cuEventRecordWithFlags_ptsz, true)

#define WAIT(symbol, per_thread)                                                \
  CUresult entry_##symbol(CUstream stream, CUevent event, unsigned int flags) { \
    return wait(Id::id_##symbol, event, {stream, per_thread}, flags,            \
                [&] { return REAL(symbol)(stream, event, flags); });            \
  }
WAIT(cuStreamWaitEvent, false)
WAIT(cuStreamWaitEvent_ptsz, true)

// ---- handles

CUresult entry_cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event) {
  PASS_OR_RETURN(pass);
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  if (const char *why = reason_against_events(context.device))
    return refuse(Id::id_cuIpcGetEventHandle, why);
  Event e = interprocess_events().find(event);
  if (!e) {
    CUresult known = REAL(cuEventQuery)(event);
    return known == CUDA_ERROR_INVALID_HANDLE ? known : CUDA_ERROR_INVALID_VALUE;
  }
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (e->is_private) return refuse(Id::id_cuIpcGetEventHandle, kNotPrivate);
  return interprocess_events().get_handle(*e, *out);
}

CUresult entry_cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  PASS_OR_RETURN(pass);
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  if (const char *why = reason_against_events(context.device))
    return refuse(Id::id_cuIpcOpenEventHandle, why);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return interprocess_events().open_handle(handle, context, *out);
}

// ---- uses that other processes would not see

#define PRIVATE(symbol, parameters, ...)                                                \
  CUresult entry_##symbol parameters {                                                  \
    HOLD_OR_RETURN(held);                                                               \
    if (CUresult e = make_private(Id::id_##symbol, event); e != CUDA_SUCCESS) return e; \
    return REAL(symbol)(__VA_ARGS__);                                                   \
  }

PRIVATE(cuCtxRecordEvent, (CUcontext context, CUevent event), context, event)
PRIVATE(cuCtxWaitEvent, (CUcontext context, CUevent event), context, event)
PRIVATE(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), context, event)
PRIVATE(cuGreenCtxWaitEvent, (CUgreenCtx context, CUevent event), context, event)
PRIVATE(cuGraphAddEventRecordNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n, CUevent event),
        node, graph, after, n, event)
PRIVATE(cuGraphAddEventWaitNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n, CUevent event),
        node, graph, after, n, event)
PRIVATE(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), node, event)
PRIVATE(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event), node, event)
PRIVATE(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
        exec, node, event)
PRIVATE(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), exec,
        node, event)

}  // namespace ckpt::cuda
