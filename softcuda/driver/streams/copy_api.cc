// SPDX-License-Identifier: Apache-2.0
//
// cuMemcpy* and cuMemset*. Compiled twice, the second time for the per-thread default stream, for
// which cuda.h gives every function here its _ptds or _ptsz name.
#include "cuda/copies.h"
#include "softcuda/driver/state/strict.h"
#include "softcuda/driver/streams/submit.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

using ckpt::u64;

u64 address(const void *p) { return reinterpret_cast<u64>(p); }

CUresult copy(u64 dst, u64 src, u64 bytes, CUstream stream, bool wait) {
  CALL_WITH_CONTEXT();
  Box b;
  CHECK_CU(linear(dst, src, bytes, b));
  return submit(call.context, effective(stream), b, wait);
}

CUresult copy_shape(const CUDA_MEMCPY3D *d, CUstream stream, bool wait, bool peer = false) {
  CALL_WITH_CONTEXT();
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_VALUE);
  Box b;
  CHECK_CU(box_of(*d, b));
  return submit(call.context, effective(stream), b, wait, peer);
}

CUresult copy_rows(const CUDA_MEMCPY2D *d, CUstream stream, bool wait) {
  CUDA_MEMCPY3D box = d != nullptr ? ckpt::api::as_3d(*d) : CUDA_MEMCPY3D{};
  return copy_shape(d != nullptr ? &box : nullptr, stream, wait);
}

// The forms with contexts. Addresses are unique among all devices, so they are only checked.
CUresult copy_peer(u64 dst, CUcontext to, u64 src, CUcontext from, u64 bytes, CUstream stream,
                   bool wait) {
  CALL_WITH_CONTEXT();
  REQUIRE(process().contexts.holds(to) && process().contexts.holds(from),
          CUDA_ERROR_INVALID_CONTEXT);
  Box b;
  CHECK_CU(linear(dst, src, bytes, b));
  return submit(call.context, effective(stream), b, wait, wait);
}

CUresult fill(CUdeviceptr dst, u64 pitch, ckpt::u32 value, ckpt::u32 element, u64 width, u64 height,
              CUstream stream) {
  CALL_WITH_CONTEXT();
  Fill f{nullptr, pitch, width, height, element, value, dst};
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  REQUIRE(dst % element == 0 && (height == 1 || pitch >= width * element),
          CUDA_ERROR_INVALID_VALUE);
  f.dst = process().memory->host(dst, (height - 1) * pitch + width * element);
  REQUIRE(f.dst != nullptr, CUDA_ERROR_INVALID_VALUE);
  return submit(call.context, effective(stream), f, false);
}

// Copies one row between linear memory and an array, or between two arrays.
CUresult array_copy(CUarray dst, u64 dst_at, u64 dst_linear, CUarray src, u64 src_at,
                    u64 src_linear, u64 bytes, CUstream stream, bool wait) {
  CUDA_MEMCPY3D d{};
  d.dstMemoryType = dst != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.dstArray = dst;
  d.dstXInBytes = dst != nullptr ? dst_at : 0;
  d.dstDevice = dst_linear;
  d.srcMemoryType = src != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.srcArray = src;
  d.srcXInBytes = src != nullptr ? src_at : 0;
  d.srcDevice = src_linear;
  d.WidthInBytes = bytes;
  d.Height = d.Depth = 1;
  return copy_shape(&d, stream, wait);
}

}  // namespace

SOFTCUDA_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  return copy(dst, src, n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                                   size_t n) {
  return copy_peer(dst, to, src, from, n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n) {
  return copy(dst, address(src), n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n) {
  return copy(address(dst), src, n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  return copy(dst, src, n, nullptr, false);
}
SOFTCUDA_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  return copy(dst, src, n, s, false);
}
SOFTCUDA_API CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                                        CUcontext from, size_t n, CUstream s) {
  return copy_peer(dst, to, src, from, n, s, false);
}
SOFTCUDA_API CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
  FAIL_IF_ORDERED("cuMemcpyHtoDAsync");
  return copy(dst, address(src), n, s, false);
}
SOFTCUDA_API CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream s) {
  FAIL_IF_ORDERED("cuMemcpyDtoHAsync");
  return copy(address(dst), src, n, s, false);
}
SOFTCUDA_API CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  return copy(dst, src, n, s, false);
}

SOFTCUDA_API CUresult cuMemcpyHtoA(CUarray dst, size_t at, const void *src, size_t n) {
  return array_copy(dst, at, 0, nullptr, 0, address(src), n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyAtoH(void *dst, CUarray src, size_t at, size_t n) {
  return array_copy(nullptr, 0, address(dst), src, at, 0, n, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpyDtoA(CUarray dst, size_t at, CUdeviceptr src, size_t n) {
  return array_copy(dst, at, 0, nullptr, 0, src, n, nullptr, false);
}
SOFTCUDA_API CUresult cuMemcpyAtoD(CUdeviceptr dst, CUarray src, size_t at, size_t n) {
  return array_copy(nullptr, 0, dst, src, at, 0, n, nullptr, false);
}
SOFTCUDA_API CUresult cuMemcpyAtoA(CUarray dst, size_t dst_at, CUarray src, size_t src_at,
                                   size_t n) {
  return array_copy(dst, dst_at, 0, src, src_at, 0, n, nullptr, false);
}
SOFTCUDA_API CUresult cuMemcpyHtoAAsync(CUarray dst, size_t at, const void *src, size_t n,
                                        CUstream s) {
  return array_copy(dst, at, 0, nullptr, 0, address(src), n, s, false);
}
SOFTCUDA_API CUresult cuMemcpyAtoHAsync(void *dst, CUarray src, size_t at, size_t n, CUstream s) {
  return array_copy(nullptr, 0, address(dst), src, at, 0, n, s, false);
}

SOFTCUDA_API CUresult cuMemcpy2D(const CUDA_MEMCPY2D *d) { return copy_rows(d, nullptr, true); }
SOFTCUDA_API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *d) {
  return copy_rows(d, nullptr, true);
}
SOFTCUDA_API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *d, CUstream s) {
  return copy_rows(d, s, false);
}
SOFTCUDA_API CUresult cuMemcpy3D(const CUDA_MEMCPY3D *d) { return copy_shape(d, nullptr, true); }
SOFTCUDA_API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *d, CUstream s) {
  return copy_shape(d, s, false);
}

SOFTCUDA_API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D d = ckpt::api::without_contexts(*p);
  return copy_shape(&d, nullptr, true, true);
}
SOFTCUDA_API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream s) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D d = ckpt::api::without_contexts(*p);
  return copy_shape(&d, s, false);
}

// The attributes say when the host's memory is read and where managed memory should be. The copies
// read it as those of cuMemcpyAsync do, which satisfies each of them.
SOFTCUDA_API CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                         size_t count, CUmemcpyAttributes *attrs, size_t *,
                                         size_t n_attrs, CUstream s) {
  REQUIRE(dsts != nullptr && srcs != nullptr && sizes != nullptr && count > 0 && attrs != nullptr &&
              n_attrs > 0 && n_attrs <= count,
          CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < count; ++i) CHECK_CU(copy(dsts[i], srcs[i], sizes[i], s, false));
  return CUDA_SUCCESS;
}

// CUDA 13.2.
#if CUDA_VERSION < 13020 && defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz
#endif
SOFTCUDA_API CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                  CUmemcpyAttributes *attributes, CUstream s) {
  REQUIRE(attributes != nullptr, CUDA_ERROR_INVALID_VALUE);
  return copy(to, from, bytes, s, false);
}

SOFTCUDA_API CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) {
  return fill(p, 0, v, 1, n, 1, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD16(CUdeviceptr p, unsigned short v, size_t n) {
  return fill(p, 0, v, 2, n, 1, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD32(CUdeviceptr p, unsigned int v, size_t n) {
  return fill(p, 0, v, 4, n, 1, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  return fill(p, 0, v, 1, n, 1, s);
}
SOFTCUDA_API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s) {
  return fill(p, 0, v, 2, n, 1, s);
}
SOFTCUDA_API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned int v, size_t n, CUstream s) {
  return fill(p, 0, v, 4, n, 1, s);
}
SOFTCUDA_API CUresult cuMemsetD2D8(CUdeviceptr p, size_t pitch, unsigned char v, size_t w,
                                   size_t h) {
  return fill(p, pitch, v, 1, w, h, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD2D16(CUdeviceptr p, size_t pitch, unsigned short v, size_t w,
                                    size_t h) {
  return fill(p, pitch, v, 2, w, h, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD2D32(CUdeviceptr p, size_t pitch, unsigned int v, size_t w,
                                    size_t h) {
  return fill(p, pitch, v, 4, w, h, nullptr);
}
SOFTCUDA_API CUresult cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w,
                                        size_t h, CUstream s) {
  return fill(p, pitch, v, 1, w, h, s);
}
SOFTCUDA_API CUresult cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w,
                                         size_t h, CUstream s) {
  return fill(p, pitch, v, 2, w, h, s);
}
SOFTCUDA_API CUresult cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned int v, size_t w,
                                         size_t h, CUstream s) {
  return fill(p, pitch, v, 4, w, h, s);
}
