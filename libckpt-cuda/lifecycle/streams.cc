// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint has to know of streams: whether one records a graph, since then its work is not
// done but noted, and whether the driver is just calling a function of the program.
#include <set>

#include "libckpt-cuda/entry/calls.h"
#include "libckpt-cuda/lifecycle/blockers.h"

namespace ckpt::cuda {
namespace {

std::mutex g_mutex;
std::set<std::pair<CUstream, bool>> &captures() {  // stream, as the per-thread forms mean it
  static auto *const kCaptures = new std::set<std::pair<CUstream, bool>>;
  return *kCaptures;
}
std::atomic<int> g_host_calls{0};
std::atomic<bool> g_close_behind{false};

CUresult begun(CUresult e, CUstream stream, bool per_thread) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(g_mutex);
  captures().insert({stream, per_thread});
  return e;
}

// Also a capture that ends with an error has ended, unless the driver did not know the stream.
CUresult ended(CUresult e, CUstream stream, bool per_thread) {
  if (e == CUDA_ERROR_INVALID_HANDLE || e == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) return e;
  std::lock_guard lock(g_mutex);
  captures().erase({stream, per_thread});
  return e;
}

CUresult destroyed(CUresult e, CUstream stream) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(g_mutex);
  captures().erase({stream, false});
  captures().erase({stream, true});
  return e;
}

// A call of the program's, on a thread of the driver. Whatever it calls passes the gate: it must
// come to its end before the device can rest.
struct HostCall {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  void *data = nullptr;

  void begin() {
    g_host_calls++;
    gate().exempt(true);
  }
  static void end() {
    gate().exempt(false);
    if (--g_host_calls == 0 && g_close_behind) gate().close();
  }
};

void CUDA_CB call_function(void *p) {
  HostCall *call = static_cast<HostCall *>(p);
  call->begin();
  call->function(call->data);
  HostCall::end();
}

// In a graph the function is called as often as the graph is launched, so nothing is freed there.
void CUDA_CB call_once(void *p) {
  call_function(p);
  delete static_cast<HostCall *>(p);
}

void CUDA_CB call_callback(CUstream stream, CUresult status, void *p) {
  HostCall *call = static_cast<HostCall *>(p);
  call->begin();
  call->callback(stream, status, call->data);
  HostCall::end();
  delete call;
}

// A stream that is being captured keeps the function for ever.
CUhostFn wrapper() { return capturing() ? call_function : call_once; }

template <class Fn>
CUresult launch(Fn real, CUstream stream, CUhostFn function, void *data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostCall *call = new HostCall{function, nullptr, data};
  CUresult e = real(stream, wrapper(), call);
  if (e != CUDA_SUCCESS) delete call;
  return e;
}

template <class Fn>
CUresult add_callback(Fn real, CUstream stream, CUstreamCallback callback, void *data,
                      unsigned flags) {
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostCall *call = new HostCall{nullptr, callback, data};
  CUresult e = real(stream, call_callback, call, flags);
  if (e != CUDA_SUCCESS) delete call;
  return e;
}

}  // namespace

bool capturing() {
  std::lock_guard lock(g_mutex);
  return !captures().empty();
}

int host_calls_running() { return g_host_calls; }
void close_gate_behind_host_calls(bool wanted) { g_close_behind = wanted; }

#define BEGIN(symbol, per_thread, parameters, ...)               \
  CUresult entry_##symbol parameters {                           \
    PASS_OR_RETURN(pass);                                        \
    return begun(REAL(symbol)(__VA_ARGS__), stream, per_thread); \
  }

BEGIN(cuStreamBeginCapture, false, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_ptsz, true, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_v2, false, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, true, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGIN(cuStreamBeginCaptureToGraph, false,
      (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
       size_t n, CUstreamCaptureMode mode),
      stream, graph, nodes, data, n, mode)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, true,
      (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
       size_t n, CUstreamCaptureMode mode),
      stream, graph, nodes, data, n, mode)

CUresult entry_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  PASS_OR_RETURN(pass);
  return ended(REAL(cuStreamEndCapture)(stream, graph), stream, false);
}
CUresult entry_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
  PASS_OR_RETURN(pass);
  return ended(REAL(cuStreamEndCapture_ptsz)(stream, graph), stream, true);
}
CUresult entry_cuStreamDestroy(CUstream stream) {
  PASS_OR_RETURN(pass);
  return destroyed(REAL(cuStreamDestroy)(stream), stream);
}
CUresult entry_cuStreamDestroy_v2(CUstream stream) {
  PASS_OR_RETURN(pass);
  return destroyed(REAL(cuStreamDestroy_v2)(stream), stream);
}

CUresult entry_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  PASS_OR_RETURN(pass);
  return launch(REAL(cuLaunchHostFunc), stream, function, data);
}
CUresult entry_cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
  PASS_OR_RETURN(pass);
  return launch(REAL(cuLaunchHostFunc_ptsz), stream, function, data);
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
