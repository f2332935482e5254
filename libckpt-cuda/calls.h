// SPDX-License-Identifier: Apache-2.0
//
// What a wrapped call does: pass the gate, and then the driver's own.
#pragma once

#include <atomic>
#include <tuple>

#include "agent/participant/gate.h"
#include "libckpt-cuda/entries.h"

namespace ckpt::cuda {

agent::Gate &gate();
// The devices could not be had again: calls that need them fail.
extern std::atomic<bool> g_devices_lost;

class Pass {
 public:
  Pass() { gate().enter(); }
  ~Pass() { gate().leave(); }
  Pass(const Pass &) = delete;
  bool lost() const { return g_devices_lost.load(std::memory_order_relaxed); }
};

// The head of an entry of ours.
#define PASS_OR_RETURN(pass)    \
  ::ckpt::cuda::Pass pass;      \
  if (pass.lost()) [[unlikely]] \
  return CUDA_ERROR_DEVICE_UNAVAILABLE

// What keeps this process from being checkpointed, once it has happened; `what` is a constant.
void note_use(Id id, const char *what);
// Says once that an entry is refused.
CUresult refuse(Id id, const char *why);

template <class Copy>
bool one_is_host(const Copy &c) {
  return c.srcMemoryType == CU_MEMORYTYPE_HOST || c.dstMemoryType == CU_MEMORYTYPE_HOST;
}
// Exactly one of the addresses is of a device.
bool between_host_and_device(CUdeviceptr a, CUdeviceptr b);

// Bytes that a call copies between the host and a device, as its parameters tell. Nothing is known
// of arrays and of copies in graphs.
template <class... A>
constexpr u64 copied_by(const A &...) {
  return 0;
}
template <class... A>
u64 copied_by(CUdeviceptr, const void *, size_t bytes, A...) {
  return bytes;
}
template <class... A>
u64 copied_by(void *, CUdeviceptr, size_t bytes, A...) {
  return bytes;
}
// To look both addresses up would be felt in a smaller copy, which needs the bus for a moment only.
inline constexpr size_t kWorthALook = 64 << 10;
template <class... A>
u64 copied_by(CUdeviceptr to, CUdeviceptr from, size_t bytes, A...) {
  return bytes >= kWorthALook && between_host_and_device(to, from) ? bytes : 0;
}
template <class... A>
u64 copied_by(const CUDA_MEMCPY2D_v2 *c, A...) {
  return c != nullptr && one_is_host(*c) ? c->WidthInBytes * c->Height : 0;
}
template <class... A>
u64 copied_by(const CUDA_MEMCPY3D_v2 *c, A...) {
  return c != nullptr && one_is_host(*c) ? c->WidthInBytes * c->Height * c->Depth : 0;
}

// These look like cuMemcpy, and nobody has to look at their addresses.
constexpr bool copies_within_devices(Id id) {
  return id == Id::id_cuMemcpyDtoD_v2 || id == Id::id_cuMemcpyDtoD_v2_ptds ||
         id == Id::id_cuMemcpyDtoDAsync_v2 || id == Id::id_cuMemcpyDtoDAsync_v2_ptsz;
}

template <Id I, class F>
struct Gated;
template <Id I, class... A>
struct Gated<I, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    PASS_OR_RETURN(pass);
    if (!copies_within_devices(I) && gate().watched()) gate().copied(copied_by(a...));
    return reinterpret_cast<CUresult (*)(A...)>(real_entry(I))(a...);
  }
};

// Managed memory that is memory of the host (ckpt-run --managed-on-host).
bool managed_on_host(CUdeviceptr p);

// Advice about where managed memory should be.
template <Id I, size_t N, class F>
struct Hint;
template <Id I, size_t N, class... A>
struct Hint<I, N, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    if (managed_on_host(std::get<N>(std::tuple{a...}))) return CUDA_SUCCESS;
    return Gated<I, CUresult (*)(A...)>::call(a...);
  }
};

struct Why {
  const char *text;
};
template <Id I, const Why &W, class F>
struct Noted;
template <Id I, const Why &W, class... A>
struct Noted<I, W, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    CUresult e = Gated<I, CUresult (*)(A...)>::call(a...);
    if (e == CUDA_SUCCESS) note_use(I, W.text);
    return e;
  }
};

// The arguments do not matter: nothing of them is looked at.
template <Id I, const Why &W>
struct Refused {
  static CUresult call() { return refuse(I, W.text); }
};

}  // namespace ckpt::cuda
