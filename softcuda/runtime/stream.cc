// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and stream-ordered memory. Compiled twice, as copy.cc is.
#include "softcuda/runtime/boxes.h"
#include "softcuda/runtime/stream_devices.h"

using namespace ckpt::softcuda::runtime;

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned int flags,
                                                    int priority) {
  RETURN_IF(enter());
  return keep(note_stream(as_runtime(cuStreamCreateWithPriority(s, flags, priority)), s));
}
CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned int flags) {
  return cudaStreamCreateWithPriority(s, flags, 0);
}
CUDART_API cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, 0); }
CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t s) {
  forget_stream(s);
  FORWARD(cuStreamDestroy(s));
}
CUDART_API cudaError_t cudaEventCreate(cudaEvent_t *e) { FORWARD(cuEventCreate(e, 0)); }
CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned int flags) {
  FORWARD(cuEventCreate(e, flags));
}
CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t e) { FORWARD(cuEventDestroy(e)); }
CUDART_API cudaError_t cudaEventQuery(cudaEvent_t e) { FORWARD(cuEventQuery(e)); }
CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t e) { FORWARD(cuEventSynchronize(e)); }
CUDART_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  FORWARD(cuEventElapsedTime_v2(ms, a, b));
}
#endif

CUDART_API cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
  FORWARD(cuMemAllocAsync(device_pointer(p), n, s));
}
CUDART_API cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool,
                                               cudaStream_t s) {
  FORWARD(cuMemAllocFromPoolAsync(device_pointer(p), n, pool, s));
}
CUDART_API cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
  FORWARD(cuMemFreeAsync(address(p), s));
}
CUDART_API cudaError_t cudaMemPrefetchAsync(const void *p, size_t n, cudaMemLocation location,
                                            unsigned int flags, cudaStream_t s) {
  CUmemLocation l{};
  l.type = static_cast<CUmemLocationType>(location.type);
  l.id = location.id;
  FORWARD(cuMemPrefetchAsync(address(p), n, l, flags, s));
}

CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t s) { FORWARD(cuStreamSynchronize(s)); }
CUDART_API cudaError_t cudaStreamQuery(cudaStream_t s) { FORWARD(cuStreamQuery(s)); }
CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned int flags) {
  FORWARD(cuStreamWaitEvent(s, e, flags));
}
CUDART_API cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned int *flags) {
  FORWARD(cuStreamGetFlags(s, flags));
}
CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  FORWARD(cuStreamGetPriority(s, priority));
}
CUDART_API cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long *id) {
  FORWARD(cuStreamGetId(s, id));
}
CUDART_API cudaError_t cudaStreamGetDevice(cudaStream_t s, int *device) {
  FORWARD(cuStreamGetDevice(s, device));
}
CUDART_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t s, void *p, size_t n,
                                                unsigned int flags) {
  FORWARD(cuStreamAttachMemAsync(s, address(p), n, flags));
}
CUDART_API cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  FORWARD(cuEventRecord(e, s));
}
CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned int flags) {
  FORWARD(cuEventRecordWithFlags(e, s, flags));
}
CUDART_API cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  FORWARD(cuStreamBeginCapture(s, static_cast<CUstreamCaptureMode>(mode)));
}
CUDART_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t g,
                                                     const cudaGraphNode_t *after,
                                                     const cudaGraphEdgeData *, size_t n,
                                                     cudaStreamCaptureMode mode) {
  FORWARD(
      cuStreamBeginCaptureToGraph(s, g, after, nullptr, n, static_cast<CUstreamCaptureMode>(mode)));
}
CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t s, cudaGraphNode_t *nodes,
                                                           const cudaGraphEdgeData *, size_t n,
                                                           unsigned int flags) {
  FORWARD(cuStreamUpdateCaptureDependencies(s, nodes, nullptr, n, flags));
}
CUDART_API cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
  FORWARD(cuStreamEndCapture(s, graph));
}
CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  FORWARD(cuStreamIsCapturing(s, reinterpret_cast<CUstreamCaptureStatus *>(status)));
}
CUDART_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  FORWARD(cuGraphLaunch(exec, s));
}
CUDART_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
  FORWARD(cuGraphUpload(exec, s));
}
CUDART_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t g,
                                                      cudaGraphInstantiateParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_GRAPH_INSTANTIATE_PARAMS d{};
  d.flags = p->flags;
  d.hUploadStream = p->uploadStream;
  RETURN_IF(enter());
  CUresult e = cuGraphInstantiateWithParams(out, g, &d);
  p->errNode_out = d.hErrNode_out;
  p->result_out = static_cast<cudaGraphInstantiateResult>(d.result_out);
  return keep(as_runtime(e));
}
CUDART_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status,
                                                unsigned long long *id, cudaGraph_t *graph,
                                                const cudaGraphNode_t **nodes,
                                                const cudaGraphEdgeData **edges, size_t *count) {
  cuuint64_t number = 0;
  if (edges != nullptr) *edges = nullptr;
  RETURN_IF(enter());
  CUresult e = cuStreamGetCaptureInfo(s, reinterpret_cast<CUstreamCaptureStatus *>(status), &number,
                                      graph, nodes, nullptr, count);
  if (id != nullptr) *id = number;
  return keep(as_runtime(e));
}

// The attributes have the same layout in both APIs.
CUDART_API cudaError_t cudaStreamSetAttribute(cudaStream_t s, cudaStreamAttrID id,
                                              const cudaStreamAttrValue *value) {
  FORWARD(cuStreamSetAttribute(s, static_cast<CUstreamAttrID>(id),
                               reinterpret_cast<const CUstreamAttrValue *>(value)));
}
CUDART_API cudaError_t cudaStreamGetAttribute(cudaStream_t s, cudaStreamAttrID id,
                                              cudaStreamAttrValue *value) {
  FORWARD(cuStreamGetAttribute(s, static_cast<CUstreamAttrID>(id),
                               reinterpret_cast<CUstreamAttrValue *>(value)));
}
CUDART_API cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  FORWARD(cuStreamCopyAttributes(to, from));
}
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  FORWARD(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode *>(mode)));
}
#endif
