// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/streams.h"

#include <pthread.h>

#include <map>
#include <mutex>
#include <utility>

#include "libckpt-cuda/entry/pass.h"

namespace ckpt::cuda {
namespace {

// Each thread has its own per-thread default stream, by one handle; another stream is the same one
// for all threads and in both forms of a call.
using CapturedStream = std::pair<CUstream, pthread_t>;

CapturedStream key_of(CUstream stream, bool per_thread) {
  bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread);
  return own ? CapturedStream(CU_STREAM_PER_THREAD, ::pthread_self()) : CapturedStream(stream, 0);
}

std::mutex g_mutex;
// With the context that was current: its end ends the capture.
std::map<CapturedStream, CUcontext> &captures() {
  static auto *const kCaptures = new std::map<CapturedStream, CUcontext>;
  return *kCaptures;
}

CUresult capture_begun(CUresult e, CUstream stream, bool per_thread) {
  CUcontext context = nullptr;
  if (e != CUDA_SUCCESS) return e;
  (void)driver().cuCtxGetCurrent(&context);
  std::lock_guard lock(g_mutex);
  captures()[key_of(stream, per_thread)] = context;
  return e;
}

// A capture that fails has ended too, unless the call did not concern it.
CUresult capture_ended(CUresult e, CUstream stream, bool per_thread) {
  if (e == CUDA_ERROR_INVALID_HANDLE || e == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) return e;
  std::lock_guard lock(g_mutex);
  captures().erase(key_of(stream, per_thread));
  return e;
}

CUresult stream_destroyed(CUresult e, CUstream stream) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(g_mutex);
  captures().erase(key_of(stream, false));
  return e;
}

}  // namespace

bool capturing() {
  std::lock_guard lock(g_mutex);
  return !captures().empty();
}

void forget_captures(CUcontext context) {
  std::lock_guard lock(g_mutex);
  std::erase_if(captures(), [context](const auto &c) { return c.second == context; });
}

#define BEGIN_CAPTURE(symbol, per_thread, parameters, ...)               \
  CUresult entry_##symbol parameters {                                   \
    PASS_OR_RETURN(pass);                                                \
    return capture_begun(REAL(symbol)(__VA_ARGS__), stream, per_thread); \
  }

BEGIN_CAPTURE(cuStreamBeginCapture, false, (CUstream stream), stream)
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, true, (CUstream stream), stream)
BEGIN_CAPTURE(cuStreamBeginCapture_v2, false, (CUstream stream, CUstreamCaptureMode mode), stream,
              mode)
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, true, (CUstream stream, CUstreamCaptureMode mode),
              stream, mode)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, false,
              (CUstream stream, CUgraph graph, const CUgraphNode *nodes,
               const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
              stream, graph, nodes, data, n, mode)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true,
              (CUstream stream, CUgraph graph, const CUgraphNode *nodes,
               const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
              stream, graph, nodes, data, n, mode)

BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph, false,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *data),
              stream, mode, graph, callback, data)
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph_ptsz, true,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *data),
              stream, mode, graph, callback, data)

CUresult entry_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  PASS_OR_RETURN(pass);
  return capture_ended(REAL(cuStreamEndCapture)(stream, graph), stream, false);
}
CUresult entry_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
  PASS_OR_RETURN(pass);
  return capture_ended(REAL(cuStreamEndCapture_ptsz)(stream, graph), stream, true);
}
CUresult entry_cuStreamDestroy(CUstream stream) {
  PASS_OR_RETURN(pass);
  return stream_destroyed(REAL(cuStreamDestroy)(stream), stream);
}
CUresult entry_cuStreamDestroy_v2(CUstream stream) {
  PASS_OR_RETURN(pass);
  return stream_destroyed(REAL(cuStreamDestroy_v2)(stream), stream);
}

}  // namespace ckpt::cuda
