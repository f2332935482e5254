// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/host_functions.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/memory/paired_memory.h"

namespace ckpt::cuda {
namespace {

std::atomic<int> g_host_calls{0};
std::atomic<bool> g_close_gate_after{false};

// Counts a host function while it runs, on a thread of the driver. Its own CUDA calls pass a closed
// gate, because the device cannot become idle before the function has returned.
class HostCallScope {
 public:
  HostCallScope() {
    g_host_calls++;
    gate().exempt(true);
    paired_memory().host_function_begins();
  }
  ~HostCallScope() {
    paired_memory().host_function_ends();
    gate().exempt(false);
    if (--g_host_calls == 0 && g_close_gate_after) gate().close();
  }
  HostCallScope(const HostCallScope &) = delete;
};

struct StreamCallback {
  CUstreamCallback function;
  void *data;
};

// A graph runs the function at each launch, so it is never freed (counted()).
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
  if (capturing()) {
    HostFunction kept = counted({function, data});
    return real(stream, kept.function, kept.data, mode...);
  }
  std::unique_ptr<HostFunction> wrapped(new HostFunction{function, data});
  CUresult e = real(stream, run_once, wrapped.get(), mode...);
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

// Programs set the same function again, before each launch of a graph. Never destroyed: the CUDA
// runtime calls the driver after main() has returned.
struct NodeFunctions {
  std::mutex mutex;
  std::map<std::pair<CUhostFn, void *>, std::unique_ptr<HostFunction>> all;
};
NodeFunctions &node_functions() {
  static NodeFunctions *const kFunctions = new NodeFunctions;
  return *kFunctions;
}

}  // namespace

int host_calls_running() { return g_host_calls; }
void close_gate_after_host_calls(bool wanted) { g_close_gate_after = wanted; }

HostFunction counted(const HostFunction &given) {
  if (given.function == nullptr) return given;
  std::lock_guard lock(node_functions().mutex);
  std::unique_ptr<HostFunction> &kept = node_functions().all[{given.function, given.data}];
  if (!kept) kept = std::make_unique<HostFunction>(given);
  return {run_repeatedly, kept.get()};
}

HostFunction uncounted(const HostFunction &of_driver) {
  return of_driver.function == run_repeatedly ? *static_cast<HostFunction *>(of_driver.data)
                                              : of_driver;
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
