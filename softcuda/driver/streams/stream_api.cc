// SPDX-License-Identifier: Apache-2.0
//
// Calls that take a stream: synchronisation, events, callbacks, capture, stream-ordered memory.
// Compiled twice, as copy_api.cc is.
#include "softcuda/driver/graphs/capture.h"
#include "softcuda/driver/graphs/graph_memory.h"
#include "softcuda/driver/memory/free_in_order.h"
#include "softcuda/driver/state/pools.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

CUresult record(Event *e, CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(process().events.holds(e) && s.context == e->context, CUDA_ERROR_INVALID_HANDLE);
  if (std::shared_ptr<Capture> capture = capture_of(s)) return capture_record(capture, s, *e);
  std::lock_guard lock(e->mutex);
  std::shared_ptr<Record> r = e->new_record();
  e->set_record(r, s.context->submit(s, [r] { r->nanoseconds = event_time(); }));
  return CUDA_SUCCESS;
}

// Writes one property of a stream to `out`.
template <class T, class Property>
CUresult get(CUstream stream, T *out, Property property) {
  CALL_WITH_STREAM(stream);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = property(s);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record(reinterpret_cast<Event *>(event), stream);
}
SOFTCUDA_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  REQUIRE((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) == 0,
          CUDA_ERROR_INVALID_VALUE);
  return record(reinterpret_cast<Event *>(event), stream);
}

SOFTCUDA_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  CALL_WITH_STREAM(stream);
  Event *e = process().events.get(event);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_HANDLE);
  std::shared_ptr<Record> r;
  {
    std::lock_guard lock(e->mutex);
    if (e->capture != nullptr) return capture_wait(s, *e);
    r = e->last_record();
  }
  REQUIRE(capture_of(s) == nullptr, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  // An event that was never recorded is complete.
  if (r && r->shared)
    s.context->submit(s, [r] { r->wait(), set_model_time_to_now(); });
  else if (r)
    s.context->submit(s, [] {}, {r->point});
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamSynchronize(CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(capture_of(s) == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (s.legacy) {
    s.context->submit(s, [] {}).wait();
  } else {
    s.queue->last().wait();
  }
  s.context->show_printed();
  return s.context->error;
}

SOFTCUDA_API CUresult cuStreamQuery(CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(capture_of(s) == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (!s.queue->last().reached()) return CUDA_ERROR_NOT_READY;
  return s.context->error;
}

SOFTCUDA_API CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback f, void *data,
                                          unsigned int flags) {
  CALL_WITH_STREAM(stream);
  REQUIRE(f != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(capture_of(s) == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  // Submitted past Context::submit: a callback also runs after an error, and receives it.
  s.queue->submit([c = s.context, stream, f, data] {
    f(stream, c->error, data);
    set_model_time_to_now();
  });
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags) {
  return get(stream, flags, [](const Stream &s) { return s.flags; });
}

SOFTCUDA_API CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  return get(stream, priority, [](const Stream &s) { return s.priority; });
}

SOFTCUDA_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  return get(stream, id, [](const Stream &s) { return s.id; });
}

SOFTCUDA_API CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
  return get(stream, device, [](const Stream &s) { return s.context->device->index; });
}

#undef cuStreamGetCtx
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cuStreamGetCtx cuStreamGetCtx_ptsz
#endif
SOFTCUDA_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  return get(stream, context,
             [](const Stream &s) { return reinterpret_cast<CUcontext>(s.context); });
}

SOFTCUDA_API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

SOFTCUDA_API CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  CALL_WITH_STREAM(stream);
  REQUIRE(!s.legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return begin_capture(s, mode);
}

// The data of an edge would say that a node begins before another one has ended. Here it never
// does.
SOFTCUDA_API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                  const CUgraphNode *after, const CUgraphEdgeData *,
                                                  size_t n, CUstreamCaptureMode mode) {
  CALL_WITH_STREAM(stream);
  REQUIRE(!s.legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return begin_capture_to(s, graph, after, n, mode);
}

SOFTCUDA_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                                        const CUgraphEdgeData *, size_t n,
                                                        unsigned int flags) {
  CALL_WITH_STREAM(stream);
  return update_dependencies(s, nodes, n, flags);
}

#undef cuStreamUpdateCaptureDependencies
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_ptsz
#endif
SOFTCUDA_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                                        size_t n, unsigned int flags) {
  CALL_WITH_STREAM(stream);
  return update_dependencies(s, nodes, n, flags);
}

SOFTCUDA_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  CALL_WITH_STREAM(stream);
  REQUIRE(graph != nullptr, CUDA_ERROR_INVALID_VALUE);
  return end_capture(s, graph);
}

SOFTCUDA_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  CALL_WITH_STREAM(stream);
  REQUIRE(status != nullptr, CUDA_ERROR_INVALID_VALUE);
  *status =
      capture_of(s) != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CALL_WITH_STREAM(stream);
  return launch_graph(exec, s);
}

SOFTCUDA_API CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  CALL_WITH_CONTEXT();
  return check_exec(exec);
}

SOFTCUDA_API CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
  CALL_INITIALISED();
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  p->hErrNode_out = nullptr;
  CUresult e = cuGraphInstantiateWithFlags(out, graph, p->flags);
  p->result_out =
      e == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
  return e;
}

// Stream-ordered memory: a free takes effect when the stream reaches it.
SOFTCUDA_API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (std::shared_ptr<Capture> capture = capture_of(s))
    return capture_alloc(*capture, s, bytes, out);
  return allocate_from(nullptr, *s.context, bytes, out);
}

SOFTCUDA_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                              CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(pool != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(capture_of(s) == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return allocate_from(pool, *s.context, bytes, out);
}

SOFTCUDA_API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  CALL_WITH_STREAM(stream);
  if (std::shared_ptr<Capture> capture = capture_of(s)) return capture_free(*capture, s, p);
  return free_in_order(p, s);
}

// All memory of a software device is equally fast, so there is nothing to move.
SOFTCUDA_API CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUmemLocation,
                                         unsigned int flags, CUstream stream) {
  CALL_WITH_STREAM(stream);
  REQUIRE(flags == 0 && process().memory->host(p, bytes) != nullptr, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr p, size_t, unsigned int) {
  CALL_WITH_STREAM(stream);
  REQUIRE(process().memory->find(p), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                             cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **nodes,
                                             const CUgraphEdgeData **edges, size_t *count) {
  CALL_WITH_STREAM(stream);
  REQUIRE(status != nullptr, CUDA_ERROR_INVALID_VALUE);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (edges != nullptr) *edges = nullptr;
  if (std::shared_ptr<Capture> capture = capture_of(s)) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capture_info(*capture, s, id, graph, nodes, count);
  }
  return CUDA_SUCCESS;
}

namespace {

CUresult submit(CUstream stream, std::vector<ValueOperation> all) {
  CALL_WITH_STREAM(stream);
  for (const ValueOperation &o : all) CHECK_CU(check(o));
  if (std::shared_ptr<Capture> capture = capture_of(s))
    return capture_values(*capture, s, std::move(all));
  for (const ValueOperation &o : all) s.context->submit(s, [o] { run(o); });
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned int) {
  return submit(s, {write_of(p, v)});
}
SOFTCUDA_API CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned int) {
  return submit(s, {write_of(p, v)});
}
SOFTCUDA_API CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t v,
                                          unsigned int flags) {
  return submit(s, {wait_for(p, v, flags)});
}
SOFTCUDA_API CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr p, cuuint64_t v,
                                          unsigned int flags) {
  return submit(s, {wait_for(p, v, flags)});
}
// As the operations one by one (cuStreamBatchMemOp's documentation).
SOFTCUDA_API CUresult cuStreamBatchMemOp(CUstream s, unsigned int n, CUstreamBatchMemOpParams *all,
                                         unsigned int flags) {
  REQUIRE(all != nullptr && n > 0 && n <= 256 && flags == 0, CUDA_ERROR_INVALID_VALUE);
  return submit(s, {all, all + n});
}
