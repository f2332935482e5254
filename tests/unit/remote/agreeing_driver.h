// SPDX-License-Identifier: Apache-2.0
//
// A driver that agrees to everything but host functions, which it could not run, in place of
// remote/cuda/server/driver.cc; included by one source of a program.
#pragma once

#include <atomic>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {
namespace test {

constexpr u64 kArena = 0x2000'0000'0000, kArenaBytes = 1ull << 40, kBlock = 2u << 20;

// A copy to the device has gone to another address; the program defines what then happens.
void copied_elsewhere();

template <class F>
struct Agrees;
template <class... A>
struct Agrees<CUresult (*)(A...)> {
  static CUresult call(A...) { return CUDA_SUCCESS; }
};

inline CUresult reserve(CUdeviceptr *out, size_t, size_t, CUdeviceptr at, unsigned long long) {
  *out = at ? at : kArena;
  return CUDA_SUCCESS;
}

inline CUresult copy_to_device(CUdeviceptr to, const void *, size_t n, CUstream) {
  if (to < kArena || to + n > kArena + kArenaBytes) copied_elsewhere();
  return CUDA_SUCCESS;
}

inline CUresult no_parameters(CUkernel, size_t, size_t *, size_t *) {
  return CUDA_ERROR_INVALID_VALUE;
}

inline CUresult no_host_functions(CUstream, CUhostFn, void *) { return CUDA_ERROR_NOT_SUPPORTED; }

// For which physical memory was last made.
inline std::atomic<CUdevice> last_device{CU_DEVICE_INVALID};
inline CUresult make_memory(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *p,
                            unsigned long long) {
  last_device = p->location.id;
  return CUDA_SUCCESS;
}

// All events have one address. `at_event_end`: called while an event ends, if it is set.
inline CUresult make_event(CUevent *out, unsigned) {
  static int event;
  if (out) *out = reinterpret_cast<CUevent>(&event);
  return CUDA_SUCCESS;
}
inline std::atomic<void (*)()> at_event_end{nullptr};
inline CUresult end_event(CUevent) {
  if (auto f = at_event_end.load()) f();
  return CUDA_SUCCESS;
}

inline Driver make_driver() {
  Driver d{};
#define X(symbol, type) d.symbol = &Agrees<type>::call;
  CKPT_SERVER_CALLS(X)
#undef X
  d.cuMemAddressReserve = reserve;
  d.cuMemCreate = make_memory;
  d.cuMemcpyHtoDAsync_v2 = copy_to_device;
  d.cuKernelGetParamInfo = no_parameters;
  d.cuLaunchHostFunc = no_host_functions;
  for (void *&entry : d.entries) entry = reinterpret_cast<void *>(&Agrees<CUresult (*)()>::call);
  auto set = [&d](api::CudaId id, auto f) {
    d.entries[static_cast<size_t>(id)] = reinterpret_cast<void *>(f);
  };
  set(api::CudaId::id_cuEventCreate, make_event);
  set(api::CudaId::id_cuEventDestroy_v2, end_event);
  return d;
}

}  // namespace test

const Driver &driver() {
  static const Driver kDriver = test::make_driver();
  return kDriver;
}

}  // namespace ckpt::remote::cuda
