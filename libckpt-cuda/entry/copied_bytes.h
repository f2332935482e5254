// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a call copies between the host and a device, read from its parameters. The Manager
// uses the figure to tell which programs compete for the bus. Copies of arrays and copies inside
// graphs count as 0.
#pragma once

#include "common/base/bytes.h"
#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// Exactly one of the two addresses is device memory.
bool between_host_and_device(CUdeviceptr a, CUdeviceptr b);

template <class Copy>
bool one_is_host(const Copy &c) {
  return c.srcMemoryType == CU_MEMORYTYPE_HOST || c.dstMemoryType == CU_MEMORYTYPE_HOST;
}

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
// Looking both addresses up would slow smaller copies down noticeably, and they use the bus for a
// negligible time.
inline constexpr size_t kLeastLookedUpBytes = 64 << 10;
template <class... A>
u64 copied_by(CUdeviceptr to, CUdeviceptr from, size_t bytes, A...) {
  return bytes >= kLeastLookedUpBytes && between_host_and_device(to, from) ? bytes : 0;
}
template <class... A>
u64 copied_by(const CUDA_MEMCPY2D_v2 *c, A...) {
  return c != nullptr && one_is_host(*c) ? c->WidthInBytes * c->Height : 0;
}
template <class... A>
u64 copied_by(const CUDA_MEMCPY3D_v2 *c, A...) {
  return c != nullptr && one_is_host(*c) ? c->WidthInBytes * c->Height * c->Depth : 0;
}

// These have the parameters of cuMemcpy, but both addresses are device memory by definition.
constexpr bool copies_within_devices(Id id) {
  return id == Id::id_cuMemcpyDtoD_v2 || id == Id::id_cuMemcpyDtoD_v2_ptds ||
         id == Id::id_cuMemcpyDtoDAsync_v2 || id == Id::id_cuMemcpyDtoDAsync_v2_ptsz;
}

}  // namespace ckpt::cuda
