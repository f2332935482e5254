// SPDX-License-Identifier: Apache-2.0
//
// Calls that create, destroy and query streams and events.
#include "softcuda/driver/graphs/capture.h"
#include "softcuda/driver/state/ipc.h"
#include "softcuda/driver/work/transfer.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0,
          CUDA_ERROR_INVALID_VALUE);
  Stream *s = new Stream;
  s->context = call.context;
  s->flags = flags;
  s->priority = std::min(0, std::max(-5, priority));
  s->id = process().next_id++;
  std::lock_guard lock(call.context->mutex);
  call.context->streams.insert(s);
  *out = reinterpret_cast<CUstream>(process().streams.add(s));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamCreate(CUstream *out, unsigned int flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

// Submitted work is still executed.
SOFTCUDA_API CUresult cuStreamDestroy_v2(CUstream stream) {
  CALL_WITH_ANY_CONTEXT();
  Stream *s = process().streams.get(stream);
  REQUIRE(s != nullptr && process().streams.remove(s), CUDA_ERROR_INVALID_HANDLE);
  Context *c = s->context;
  std::lock_guard lock(c->mutex);
  c->streams.erase(s);
  // The default stream must still wait for this stream, and cuCtxSynchronize and cuMemFree, too.
  if ((s->flags & CU_STREAM_NON_BLOCKING) == 0) c->legacy.queue->submit([] {}, {s->queue->last()});
  std::erase_if(c->left, [](const Point &p) { return p.reached(); });
  c->left.push_back(s->queue->last());
  s->queue->close();
  leave_capture(*s);
  delete s;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuEventCreate(CUevent *out, unsigned int flags) {
  CALL_WITH_CONTEXT();
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  REQUIRE(out != nullptr && (flags & ~kKnown) == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE((flags & CU_EVENT_INTERPROCESS) == 0 || (flags & CU_EVENT_DISABLE_TIMING) != 0,
          CUDA_ERROR_INVALID_VALUE);
  Event *e = new Event;
  e->context = call.context;
  e->flags = flags;
  *out = reinterpret_cast<CUevent>(process().events.add(e));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuEventDestroy_v2(CUevent event) {
  CALL_WITH_ANY_CONTEXT();
  Event *e = process().events.get(event);
  REQUIRE(e != nullptr && process().events.remove(e), CUDA_ERROR_INVALID_HANDLE);
  withdraw_event(*e);
  delete e;
  return CUDA_SUCCESS;
}

static CUresult record_of(CUevent event, std::shared_ptr<Record> &out, Event *&e) {
  e = process().events.get(event);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_HANDLE);
  std::lock_guard lock(e->mutex);
  REQUIRE(e->capture == nullptr, CUDA_ERROR_CAPTURED_EVENT);
  out = e->last_record();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuEventQuery(CUevent event) {
  CALL_WITH_CONTEXT();
  std::shared_ptr<Record> r;
  Event *e = nullptr;
  CHECK_CU(record_of(event, r, e));
  return r && !r->reached() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuEventSynchronize(CUevent event) {
  CALL_WITH_CONTEXT();
  std::shared_ptr<Record> r;
  Event *e = nullptr;
  CHECK_CU(record_of(event, r, e));
  if (r) r->wait();
  e->context->show_printed();
  return e->context->error;
}

SOFTCUDA_API CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to) {
  CALL_WITH_CONTEXT();
  REQUIRE(milliseconds != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Record> a, b;
  Event *first = nullptr, *second = nullptr;
  CHECK_CU(record_of(from, a, first));
  CHECK_CU(record_of(to, b, second));
  REQUIRE(first->context->device == second->context->device, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) == 0 && a && b,
          CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(a->point.reached() && b->point.reached(), CUDA_ERROR_NOT_READY);
  *milliseconds = static_cast<float>(static_cast<double>(b->nanoseconds - a->nanoseconds) / 1e6);
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
SOFTCUDA_API CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
