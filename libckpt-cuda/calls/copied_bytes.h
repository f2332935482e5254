// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a call copies between the host and a device, read from its parameters. The Manager
// uses the figure to tell which programs compete for the bus, and ckpt's counts of copied bytes
// (common/ipc/copy_counts.h) are made of it. Copies in batches and copies inside graphs count as 0,
// and a copy that is captured into a graph counts once, when it is captured.
#pragma once

#include "common/base/bytes.h"
#include "common/ipc/copy_counts.h"
#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

struct Copied {
  u64 to_device = 0, to_host = 0;
  bool operator==(const Copied &) const = default;
};
struct CopiesNothing {};  // known when the call is compiled

bool is_device_memory(CUdeviceptr p);

// Each side is the host or not; a copy within one of them does not count.
inline Copied copied_between(bool from_host, bool to_host, u64 bytes) {
  if (from_host == to_host) return {};
  return from_host ? Copied{bytes, 0} : Copied{0, bytes};
}

inline bool is_host(CUmemorytype type, CUdeviceptr unified) {
  return type == CU_MEMORYTYPE_HOST ||
         (type == CU_MEMORYTYPE_UNIFIED && !is_device_memory(unified));
}
template <class Copy>
Copied copied_by_box(const Copy &c, u64 bytes) {
  return copied_between(is_host(c.srcMemoryType, c.srcDevice),
                        is_host(c.dstMemoryType, c.dstDevice), bytes);
}

template <class... A>
constexpr CopiesNothing copied_by(const A &...) {
  return {};
}
template <class... A>
Copied copied_by(CUdeviceptr, const void *, size_t bytes, A...) {
  return {bytes, 0};
}
template <class... A>
Copied copied_by(void *, CUdeviceptr, size_t bytes, A...) {
  return {0, bytes};
}
template <class... A>
Copied copied_by(CUarray, size_t, const void *, size_t bytes, A...) {
  return {bytes, 0};
}
template <class... A>
Copied copied_by(void *, CUarray, size_t, size_t bytes, A...) {
  return {0, bytes};
}
template <class... A>
Copied copied_by(CUdeviceptr to, CUdeviceptr from, size_t bytes, A...) {
  return copied_between(!is_device_memory(from), !is_device_memory(to), bytes);
}
template <class... A>
Copied copied_by(const CUDA_MEMCPY2D_v2 *c, A...) {
  return c != nullptr ? copied_by_box(*c, c->WidthInBytes * c->Height) : Copied{};
}
template <class... A>
Copied copied_by(const CUDA_MEMCPY3D_v2 *c, A...) {
  return c != nullptr ? copied_by_box(*c, c->WidthInBytes * c->Height * c->Depth) : Copied{};
}

// True if looking both addresses up would slow the copy down noticeably. It uses the bus for a
// negligible time, so the Manager need not know of it.
template <class... A>
constexpr bool costs_lookups(const A &...) {
  return false;
}
template <class... A>
constexpr bool costs_lookups(CUdeviceptr, CUdeviceptr, size_t bytes, A...) {
  constexpr size_t kLeastLookedUpBytes = 64 << 10;
  return bytes < kLeastLookedUpBytes;
}

// These have the parameters of cuMemcpy, but both addresses are device memory by definition.
constexpr bool copies_within_devices(Id id) {
  return id == Id::id_cuMemcpyDtoD_v2 || id == Id::id_cuMemcpyDtoD_v2_ptds ||
         id == Id::id_cuMemcpyDtoDAsync_v2 || id == Id::id_cuMemcpyDtoDAsync_v2_ptsz;
}

}  // namespace ckpt::cuda
