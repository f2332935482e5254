// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills. Compiled twice, the second time for the per-thread default stream, for which
// the headers give the functions of both APIs their _ptds or _ptsz names.
#include <cstring>

#include "cuda/copies.h"
#include "softcuda/runtime/boxes.h"

using namespace ckpt::softcuda::runtime;

namespace {

bool is_kind(cudaMemcpyKind k) { return k >= cudaMemcpyHostToHost && k <= cudaMemcpyDefault; }

bool on_device(const void *p) {
  CUmemorytype t{};
  return cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(p)) == CUDA_SUCCESS;
}

// The direction is checked but not used: addresses are unique among the host and all devices.
cudaError_t check(const void *dst, const void *src, cudaMemcpyKind kind) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return (to && !on_device(dst)) || (from && !on_device(src)) ? cudaErrorInvalidValue : cudaSuccess;
}

// The device address of the bytes [at, at + n) of a variable.
cudaError_t range_of(const void *symbol, size_t at, size_t n, CUdeviceptr &p) {
  size_t bytes = 0;
  if (cudaError_t e = variable_of(symbol, p, bytes); e != cudaSuccess) return e;
  if (at > bytes || n > bytes - at) return cudaErrorInvalidValue;
  p += at;
  return cudaSuccess;
}

}  // namespace

CUDART_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind) {
  RETURN_IF(enter());
  if (n == 0) return cudaSuccess;
  RETURN_IF(check(dst, src, kind));
  return keep(as_runtime(kind == cudaMemcpyDeviceToDevice
                             ? cuMemcpyDtoD(address(dst), address(src), n)
                             : cuMemcpy(address(dst), address(src), n)));
}
CUDART_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind,
                                       cudaStream_t s) {
  RETURN_IF(enter());
  if (n == 0) return cudaSuccess;
  RETURN_IF(check(dst, src, kind));
  return keep(as_runtime(cuMemcpyAsync(address(dst), address(src), n, s)));
}
CUDART_API cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                                    size_t width, size_t height, cudaMemcpyKind kind) {
  RETURN_IF(enter());
  RETURN_IF(check(dst, src, kind));
  if (width > dst_pitch || width > src_pitch) return keep(cudaErrorInvalidPitchValue);
  CUDA_MEMCPY3D d = rows(dst, dst_pitch, src, src_pitch, width, height);
  return keep(as_runtime(cuMemcpy3D(&d)));
}
CUDART_API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                                         size_t src_pitch, size_t width, size_t height,
                                         cudaMemcpyKind kind, cudaStream_t s) {
  RETURN_IF(enter());
  RETURN_IF(check(dst, src, kind));
  if (width > dst_pitch || width > src_pitch) return keep(cudaErrorInvalidPitchValue);
  CUDA_MEMCPY3D d = rows(dst, dst_pitch, src, src_pitch, width, height);
  return keep(as_runtime(cuMemcpy3DAsync(&d, s)));
}
CUDART_API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuMemcpy3D(&d)));
}
CUDART_API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t s) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuMemcpy3DAsync(&d, s)));
}
CUDART_API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t n, size_t at,
                                          cudaMemcpyKind) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  RETURN_IF(range_of(symbol, at, n, p));
  return keep(as_runtime(cuMemcpy(p, address(src), n)));
}
CUDART_API cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t n, size_t at,
                                            cudaMemcpyKind) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  RETURN_IF(range_of(symbol, at, n, p));
  return keep(as_runtime(cuMemcpy(address(dst), p, n)));
}
CUDART_API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t n,
                                               size_t at, cudaMemcpyKind, cudaStream_t s) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  RETURN_IF(range_of(symbol, at, n, p));
  return keep(as_runtime(cuMemcpyAsync(p, address(src), n, s)));
}
CUDART_API cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t n, size_t at,
                                                 cudaMemcpyKind, cudaStream_t s) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  RETURN_IF(range_of(symbol, at, n, p));
  return keep(as_runtime(cuMemcpyAsync(address(dst), p, n, s)));
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_API cudaError_t cudaMemcpyPeer(void *dst, int to_device, const void *src, int from_device,
                                      size_t n) {
  CUcontext to = nullptr, from = nullptr;
  RETURN_IF(enter());
  RETURN_IF(primary_of(to_device, to));
  RETURN_IF(primary_of(from_device, from));
  return keep(as_runtime(cuMemcpyPeer(address(dst), to, address(src), from, n)));
}
CUDART_API cudaError_t cudaMemcpyPeerAsync(void *dst, int to_device, const void *src,
                                           int from_device, size_t n, cudaStream_t s) {
  CUcontext to = nullptr, from = nullptr;
  RETURN_IF(enter());
  RETURN_IF(primary_of(to_device, to));
  RETURN_IF(primary_of(from_device, from));
  return keep(as_runtime(cuMemcpyPeerAsync(address(dst), to, address(src), from, n, s)));
}
#endif

CUDART_API cudaError_t cudaMemset(void *p, int v, size_t n) {
  FORWARD(cuMemsetD8(address(p), static_cast<unsigned char>(v), n));
}
CUDART_API cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s) {
  FORWARD(cuMemsetD8Async(address(p), static_cast<unsigned char>(v), n, s));
}
CUDART_API cudaError_t cudaMemset2D(void *p, size_t pitch, int v, size_t width, size_t height) {
  FORWARD(cuMemsetD2D8(address(p), pitch, static_cast<unsigned char>(v), width, height));
}
CUDART_API cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int v, size_t width, size_t height,
                                         cudaStream_t s) {
  FORWARD(cuMemsetD2D8Async(address(p), pitch, static_cast<unsigned char>(v), width, height, s));
}
namespace {

template <class Fill>
cudaError_t fill_slices(const cudaPitchedPtr &p, const cudaExtent &e, Fill fill) {
  RETURN_IF(enter());
  for (size_t z = 0; z < e.depth; ++z)
    RETURN_IF(as_runtime(fill(address(p.ptr) + z * p.pitch * p.ysize)));
  return cudaSuccess;
}

}  // namespace

CUDART_API cudaError_t cudaMemset3D(cudaPitchedPtr p, int v, cudaExtent e) {
  return fill_slices(p, e, [&](CUdeviceptr at) {
    return cuMemsetD2D8(at, p.pitch, static_cast<unsigned char>(v), e.width, e.height);
  });
}
CUDART_API cudaError_t cudaMemset3DAsync(cudaPitchedPtr p, int v, cudaExtent e, cudaStream_t s) {
  return fill_slices(p, e, [&](CUdeviceptr at) {
    return cuMemsetD2D8Async(at, p.pitch, static_cast<unsigned char>(v), e.width, e.height, s);
  });
}

static CUDA_MEMCPY3D without_devices(const cudaMemcpy3DPeerParms &p) {
  cudaMemcpy3DParms q{};
  q.srcArray = p.srcArray;
  q.srcPos = p.srcPos;
  q.srcPtr = p.srcPtr;
  q.dstArray = p.dstArray;
  q.dstPos = p.dstPos;
  q.dstPtr = p.dstPtr;
  q.extent = p.extent;
  return box(q);
}
static cudaError_t peer_box(const cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D_PEER &out) {
  if (p == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t e = enter(); e != cudaSuccess) return e;
  out = ckpt::api::with_contexts(without_devices(*p), nullptr, nullptr);
  if (cudaError_t e = primary_of(p->srcDevice, out.srcContext); e != cudaSuccess) return e;
  return primary_of(p->dstDevice, out.dstContext);
}
CUDART_API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *p) {
  CUDA_MEMCPY3D_PEER d{};
  RETURN_IF(peer_box(p, d));
  return keep(as_runtime(cuMemcpy3DPeer(&d)));
}
CUDART_API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *p, cudaStream_t s) {
  CUDA_MEMCPY3D_PEER d{};
  RETURN_IF(peer_box(p, d));
  return keep(as_runtime(cuMemcpy3DPeerAsync(&d, s)));
}
// The attributes choose when the source is read and have no effect on the result.
CUDART_API cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs,
                                            const size_t *sizes, size_t count,
                                            cudaMemcpyAttributes *attrs, size_t *, size_t n_attrs,
                                            cudaStream_t s) {
  bool complete = dsts != nullptr && srcs != nullptr && sizes != nullptr && attrs != nullptr;
  if (!complete || count == 0 || n_attrs == 0 || n_attrs > count)
    return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  for (size_t i = 0; i < count; ++i)
    RETURN_IF(as_runtime(cuMemcpyAsync(address(dsts[i]), address(srcs[i]), sizes[i], s)));
  return cudaSuccess;
}
