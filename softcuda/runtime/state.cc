// SPDX-License-Identifier: Apache-2.0
#include "softcuda/runtime/state.h"

#include <atomic>
#include <map>
#include <mutex>

namespace ckpt::softcuda::runtime {
namespace {

constexpr int kNone = -1;
thread_local int device = kNone;     // as set by cudaSetDevice
std::atomic<int> default_device{0};  // of all other threads
thread_local cudaError_t last = cudaSuccess;

struct Primaries {
  std::mutex mutex;
  std::map<int, CUcontext> contexts;
};
Primaries &primaries() {
  static Primaries *const kPrimaries = new Primaries;
  return *kPrimaries;
}

CUresult primary(int d, CUcontext &out) {
  Primaries &p = primaries();
  std::lock_guard lock(p.mutex);
  CUcontext &c = p.contexts[d];
  if (c == nullptr)
    if (CUresult e = cuDevicePrimaryCtxRetain(&c, d); e != CUDA_SUCCESS) return e;
  out = c;
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t keep(cudaError_t e) {
  if (e != cudaSuccess && e != cudaErrorNotReady) last = e;
  return e;
}

cudaError_t last_error(bool forget) {
  cudaError_t e = last;
  if (forget) last = cudaSuccess;
  return e;
}

int device_of_thread() { return device == kNone ? default_device.load() : device; }

cudaError_t initialise() { return as_runtime(cuInit(0)); }

cudaError_t enter() {
  CUcontext c = nullptr;
  if (CUresult e = cuCtxGetCurrent(&c); e == CUDA_ERROR_NOT_INITIALIZED) {
    if (cudaError_t first = initialise(); first != cudaSuccess) return first;
  } else if (e != CUDA_SUCCESS) {
    return as_runtime(e);
  }
  if (c != nullptr) return cudaSuccess;
  if (CUresult e = primary(device_of_thread(), c); e != CUDA_SUCCESS) return as_runtime(e);
  return as_runtime(cuCtxSetCurrent(c));
}

cudaError_t set_device(int d) {
  if (cudaError_t e = initialise(); e != cudaSuccess) return e;
  int count = 0;
  if (CUresult e = cuDeviceGetCount(&count); e != CUDA_SUCCESS) return as_runtime(e);
  if (d < 0 || d >= count) return cudaErrorInvalidDevice;
  device = d;
  CUcontext c = nullptr;
  if (CUresult e = primary(d, c); e != CUDA_SUCCESS) return as_runtime(e);
  return as_runtime(cuCtxSetCurrent(c));
}

cudaError_t set_valid_devices(const int *devices, int n) {
  if (cudaError_t e = initialise(); e != cudaSuccess) return e;
  int count = 0;
  if (CUresult e = cuDeviceGetCount(&count); e != CUDA_SUCCESS) return as_runtime(e);
  if (n < 0 || n > count || (devices == nullptr && n > 0)) return cudaErrorInvalidValue;
  for (int i = 0; i < n; ++i)
    if (devices[i] < 0 || devices[i] >= count) return cudaErrorInvalidDevice;
  default_device = n == 0 ? 0 : devices[0];
  return cudaSuccess;
}

cudaError_t primary_of(int d, CUcontext &out) {
  int count = 0;
  if (CUresult e = cuDeviceGetCount(&count); e != CUDA_SUCCESS) return as_runtime(e);
  if (d < 0 || d >= count) return cudaErrorInvalidDevice;
  return as_runtime(primary(d, out));
}

CUlaunchConfig as_driver(const cudaLaunchConfig_t &config) {
  CUlaunchConfig c{};
  c.gridDimX = config.gridDim.x;
  c.gridDimY = config.gridDim.y;
  c.gridDimZ = config.gridDim.z;
  c.blockDimX = config.blockDim.x;
  c.blockDimY = config.blockDim.y;
  c.blockDimZ = config.blockDim.z;
  c.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  c.hStream = config.stream;
  c.attrs = reinterpret_cast<CUlaunchAttribute *>(config.attrs);
  c.numAttrs = config.numAttrs;
  return c;
}

}  // namespace ckpt::softcuda::runtime
