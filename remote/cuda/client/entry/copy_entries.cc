// SPDX-License-Identifier: Apache-2.0
//
// The entries of copies.h.
#include "remote/cuda/client/copies/copies.h"

namespace ckpt::remote::cuda {
namespace {

constexpr Order kLegacyStream{0, false}, kPerThreadStream{2, false};

Order in_order(CUstream stream) { return {number_of(stream), true}; }

}  // namespace

// The two forms of an entry that waits: for the legacy default stream, and for the per-thread one.
#define WAITING(symbol, parameters, ...)      \
  CUresult entry_##symbol parameters {        \
    constexpr Order order = kLegacyStream;    \
    return __VA_ARGS__;                       \
  }                                           \
  CUresult entry_##symbol##_ptds parameters { \
    constexpr Order order = kPerThreadStream; \
    return __VA_ARGS__;                       \
  }

WAITING(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t n), copy(to, from, n, order))
WAITING(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t n),
        write_device(to, from, n, order))
WAITING(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t n), read_device(to, from, n, order))
WAITING(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t n),
        copy_on_device(to, from, n, order))
WAITING(cuMemcpyPeer, (CUdeviceptr to, CUcontext of, CUdeviceptr from, CUcontext source, size_t n),
        copy_between(to, of, from, source, n, order))

CUresult entry_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(to, from, n, in_order(s));
}
CUresult entry_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) {
  return write_device(to, from, n, in_order(s));
}
CUresult entry_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) {
  return read_device(to, from, n, in_order(s));
}
CUresult entry_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy_on_device(to, from, n, in_order(s));
}
CUresult entry_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n,
                                 CUstream s) {
  return copy_on_device(to, from, n, in_order(s));
}

// Their attributes say when the program's bytes are read, and where memory should be: they are read
// now.
CUresult entry_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                  CUmemcpyAttributes *, size_t *, size_t, size_t *failed,
                                  CUstream s) {
  if (!to || !from || !bytes || count == 0 || s == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    CUresult e = copy(to[i], from[i], bytes[i], in_order(s));
    if (e == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return e;
  }
  return CUDA_SUCCESS;
}
CUresult entry_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
                                     size_t count, CUmemcpyAttributes *a, size_t *which, size_t n,
                                     CUstream s) {
  return entry_cuMemcpyBatchAsync(to, from, bytes, count, a, which, n, nullptr, s);
}

#define FILLS(bits, type)                                                                          \
  WAITING(cuMemsetD##bits##_v2, (CUdeviceptr p, type v, size_t n),                                 \
          fill(p, 0, v, sizeof(type), n, 1, order))                                                \
  WAITING(cuMemsetD2D##bits##_v2, (CUdeviceptr p, size_t pitch, type v, size_t w, size_t h),       \
          fill(p, pitch, v, sizeof(type), w, h, order))                                            \
  CUresult entry_cuMemsetD##bits##Async(CUdeviceptr p, type v, size_t n, CUstream s) {             \
    return fill(p, 0, v, sizeof(type), n, 1, in_order(s));                                         \
  }                                                                                                \
  CUresult entry_cuMemsetD2D##bits##Async(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h, \
                                          CUstream s) {                                            \
    return fill(p, pitch, v, sizeof(type), w, h, in_order(s));                                     \
  }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

#undef FILLS
#undef WAITING

}  // namespace ckpt::remote::cuda
