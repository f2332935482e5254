// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/streams.h"

#include <mutex>
#include <set>
#include <utility>

#include "libckpt-cuda/entry/pass.h"

namespace ckpt::cuda {
namespace {

// A stream, and whether a per-thread form was called: handle 0 then means another stream.
using CapturedStream = std::pair<CUstream, bool>;

std::mutex g_mutex;
std::set<CapturedStream> &captures() {
  static auto *const kCaptures = new std::set<CapturedStream>;
  return *kCaptures;
}

CUresult capture_begun(CUresult e, CUstream stream, bool per_thread) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(g_mutex);
  captures().insert({stream, per_thread});
  return e;
}

// A capture that fails has ended too, unless the call did not concern it.
CUresult capture_ended(CUresult e, CUstream stream, bool per_thread) {
  if (e == CUDA_ERROR_INVALID_HANDLE || e == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) return e;
  std::lock_guard lock(g_mutex);
  captures().erase({stream, per_thread});
  return e;
}

CUresult stream_destroyed(CUresult e, CUstream stream) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(g_mutex);
  captures().erase({stream, false});
  captures().erase({stream, true});
  return e;
}

}  // namespace

bool capturing() {
  std::lock_guard lock(g_mutex);
  return !captures().empty();
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
