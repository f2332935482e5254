// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/streams.h"

#include <atomic>
#include <memory>
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
std::atomic<int> g_host_calls{0};
std::atomic<bool> g_close_gate_after{false};

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

// Counts a host function while it runs, on a thread of the driver. Its own CUDA calls pass a closed
// gate, because the device cannot become idle before the function has returned.
class HostCallScope {
 public:
  HostCallScope() {
    g_host_calls++;
    gate().exempt(true);
  }
  ~HostCallScope() {
    gate().exempt(false);
    if (--g_host_calls == 0 && g_close_gate_after) gate().close();
  }
  HostCallScope(const HostCallScope &) = delete;
};

struct HostFunction {
  CUhostFn function;
  void *data;
};
struct StreamCallback {
  CUstreamCallback function;
  void *data;
};

// A graph runs the function at each launch, so it is never freed.
void CUDA_CB run_repeatedly(void *p) {
  HostCallScope scope;
  auto *f = static_cast<HostFunction *>(p);
  f->function(f->data);
}

void CUDA_CB run_once(void *p) {
  run_repeatedly(p);
  delete static_cast<HostFunction *>(p);
}

void CUDA_CB run_callback(CUstream stream, CUresult status, void *p) {
  HostCallScope scope;
  std::unique_ptr<StreamCallback> callback(static_cast<StreamCallback *>(p));
  callback->function(stream, status, callback->data);
}

template <class Fn, class... Mode>
CUresult launch_host_function(Fn real, CUstream stream, CUhostFn function, void *data,
                              Mode... mode) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<HostFunction> wrapped(new HostFunction{function, data});
  CUresult e = real(stream, capturing() ? run_repeatedly : run_once, wrapped.get(), mode...);
  if (e == CUDA_SUCCESS) (void)wrapped.release();  // run_once() deletes it
  return e;
}

template <class Fn>
CUresult add_callback(Fn real, CUstream stream, CUstreamCallback callback, void *data,
                      unsigned flags) {
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<StreamCallback> wrapped(new StreamCallback{callback, data});
  CUresult e = real(stream, run_callback, wrapped.get(), flags);
  if (e == CUDA_SUCCESS) (void)wrapped.release();  // run_callback() deletes it
  return e;
}

}  // namespace

bool capturing() {
  std::lock_guard lock(g_mutex);
  return !captures().empty();
}

int host_calls_running() { return g_host_calls; }
void close_gate_after_host_calls(bool wanted) { g_close_gate_after = wanted; }

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

CUresult entry_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  PASS_OR_RETURN(pass);
  return launch_host_function(REAL(cuLaunchHostFunc), stream, function, data);
}
CUresult entry_cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
  PASS_OR_RETURN(pass);
  return launch_host_function(REAL(cuLaunchHostFunc_ptsz), stream, function, data);
}
CUresult entry_cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
                                   unsigned int mode) {
  PASS_OR_RETURN(pass);
  return launch_host_function(REAL(cuLaunchHostFunc_v2), stream, function, data, mode);
}
CUresult entry_cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                        unsigned int mode) {
  PASS_OR_RETURN(pass);
  return launch_host_function(REAL(cuLaunchHostFunc_v2_ptsz), stream, function, data, mode);
}
CUresult entry_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                                   unsigned int flags) {
  PASS_OR_RETURN(pass);
  return add_callback(REAL(cuStreamAddCallback), stream, callback, data, flags);
}
CUresult entry_cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data,
                                        unsigned int flags) {
  PASS_OR_RETURN(pass);
  return add_callback(REAL(cuStreamAddCallback_ptsz), stream, callback, data, flags);
}

}  // namespace ckpt::cuda
