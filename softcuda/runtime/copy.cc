// SPDX-License-Identifier: Apache-2.0
//
// Copies, fills, launches and streams. Compiled twice: also for the per-thread default stream,
// where the headers give the names of both APIs their _ptds or _ptsz forms.
#include <cstring>

#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

CUdeviceptr address(const void *p) { return reinterpret_cast<CUdeviceptr>(p); }

bool is_kind(cudaMemcpyKind k) { return k >= cudaMemcpyHostToHost && k <= cudaMemcpyDefault; }

bool on_device(const void *p) {
  CUmemorytype t{};
  return cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(p)) == CUDA_SUCCESS;
}

// The direction is only checked: addresses tell by themselves where they lie.
cudaError_t check(const void *dst, const void *src, cudaMemcpyKind kind) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return (to && !on_device(dst)) || (from && !on_device(src)) ? cudaErrorInvalidValue : cudaSuccess;
}

CUDA_MEMCPY3D rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                   size_t height) {
  CUDA_MEMCPY3D d{};
  d.dstMemoryType = d.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  d.dstDevice = address(dst);
  d.srcDevice = address(src);
  d.dstPitch = dst_pitch;
  d.srcPitch = src_pitch;
  d.WidthInBytes = width;
  d.Height = height;
  d.Depth = 1;
  return d;
}

CUarray as_array(cudaArray_const_t a) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray *>(a));
}

size_t element_bytes(CUarray a) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (a == nullptr || cuArray3DGetDescriptor(&d, a) != CUDA_SUCCESS) return 1;
  size_t channel = d.Format == CU_AD_FORMAT_UNSIGNED_INT8 || d.Format == CU_AD_FORMAT_SIGNED_INT8
                       ? 1
                   : d.Format == CU_AD_FORMAT_UNSIGNED_INT32 ||
                           d.Format == CU_AD_FORMAT_SIGNED_INT32 || d.Format == CU_AD_FORMAT_FLOAT
                       ? 4
                       : 2;
  return channel * d.NumChannels;
}

// Positions and extents count elements where an array takes part, else bytes.
CUDA_MEMCPY3D box(const cudaMemcpy3DParms &p) {
  CUDA_MEMCPY3D d{};
  CUarray to = as_array(p.dstArray), from = as_array(p.srcArray);
  size_t element = to != nullptr ? element_bytes(to) : element_bytes(from);
  d.dstMemoryType = to != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.dstArray = to;
  d.dstDevice = address(p.dstPtr.ptr);
  d.dstPitch = p.dstPtr.pitch;
  d.dstHeight = p.dstPtr.ysize;
  d.dstXInBytes = p.dstPos.x * (to != nullptr ? element : 1);
  d.dstY = p.dstPos.y;
  d.dstZ = p.dstPos.z;
  d.srcMemoryType = from != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  d.srcArray = from;
  d.srcDevice = address(p.srcPtr.ptr);
  d.srcPitch = p.srcPtr.pitch;
  d.srcHeight = p.srcPtr.ysize;
  d.srcXInBytes = p.srcPos.x * (from != nullptr ? element : 1);
  d.srcY = p.srcPos.y;
  d.srcZ = p.srcPos.z;
  d.WidthInBytes = p.extent.width * element;
  d.Height = p.extent.height;
  d.Depth = p.extent.depth;
  return d;
}

cudaError_t launch_error(CUresult e, dim3 grid, dim3 block) {
  bool shape = block.x * static_cast<size_t>(block.y) * block.z > 1024 || block.x == 0 ||
               block.y == 0 || block.z == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
               grid.y > 65535 || grid.z > 65535;
  return e == CUDA_ERROR_INVALID_VALUE && shape ? cudaErrorInvalidConfiguration : as_runtime(e);
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
CUDART_API cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src,
                                           size_t pitch, size_t width, size_t height,
                                           cudaMemcpyKind) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(nullptr, 0, src, pitch, width, height);
  d.dstMemoryType = CU_MEMORYTYPE_ARRAY, d.dstArray = as_array(dst), d.dstXInBytes = x, d.dstY = y;
  return keep(as_runtime(cuMemcpy3D(&d)));
}
CUDART_API cudaError_t cudaMemcpy2DFromArray(void *dst, size_t pitch, cudaArray_const_t src,
                                             size_t x, size_t y, size_t width, size_t height,
                                             cudaMemcpyKind) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(dst, pitch, nullptr, 0, width, height);
  d.srcMemoryType = CU_MEMORYTYPE_ARRAY, d.srcArray = as_array(src), d.srcXInBytes = x, d.srcY = y;
  return keep(as_runtime(cuMemcpy3D(&d)));
}
CUDART_API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y,
                                                const void *src, size_t pitch, size_t width,
                                                size_t height, cudaMemcpyKind, cudaStream_t s) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(nullptr, 0, src, pitch, width, height);
  d.dstMemoryType = CU_MEMORYTYPE_ARRAY, d.dstArray = as_array(dst), d.dstXInBytes = x, d.dstY = y;
  return keep(as_runtime(cuMemcpy3DAsync(&d, s)));
}
CUDART_API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t n, size_t at,
                                          cudaMemcpyKind) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  size_t bytes = 0;
  RETURN_IF(variable_of(symbol, p, bytes));
  if (at > bytes || n > bytes - at) return keep(cudaErrorInvalidValue);
  return keep(as_runtime(cuMemcpy(p + at, address(src), n)));
}
CUDART_API cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t n, size_t at,
                                            cudaMemcpyKind) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  size_t bytes = 0;
  RETURN_IF(variable_of(symbol, p, bytes));
  if (at > bytes || n > bytes - at) return keep(cudaErrorInvalidValue);
  return keep(as_runtime(cuMemcpy(address(dst), p + at, n)));
}
CUDART_API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t n,
                                               size_t at, cudaMemcpyKind, cudaStream_t s) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  size_t bytes = 0;
  RETURN_IF(variable_of(symbol, p, bytes));
  if (at > bytes || n > bytes - at) return keep(cudaErrorInvalidValue);
  return keep(as_runtime(cuMemcpyAsync(p + at, address(src), n, s)));
}
CUDART_API cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t n, size_t at,
                                                 cudaMemcpyKind, cudaStream_t s) {
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  size_t bytes = 0;
  RETURN_IF(variable_of(symbol, p, bytes));
  if (at > bytes || n > bytes - at) return keep(cudaErrorInvalidValue);
  return keep(as_runtime(cuMemcpyAsync(address(dst), p + at, n, s)));
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_API cudaError_t cudaMemcpyPeer(void *dst, int, const void *src, int, size_t n) {
  FORWARD(cuMemcpy(address(dst), address(src), n));
}
CUDART_API cudaError_t cudaMemcpyPeerAsync(void *dst, int, const void *src, int, size_t n,
                                           cudaStream_t s) {
  FORWARD(cuMemcpyAsync(address(dst), address(src), n, s));
}
CUDART_API cudaError_t cudaStreamCreate(cudaStream_t *s) { FORWARD(cuStreamCreate(s, 0)); }
CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned int flags) {
  FORWARD(cuStreamCreate(s, flags));
}
CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned int flags,
                                                    int priority) {
  FORWARD(cuStreamCreateWithPriority(s, flags, priority));
}
CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t s) { FORWARD(cuStreamDestroy(s)); }
CUDART_API cudaError_t cudaEventCreate(cudaEvent_t *e) { FORWARD(cuEventCreate(e, 0)); }
CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned int flags) {
  FORWARD(cuEventCreate(e, flags));
}
CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t e) { FORWARD(cuEventDestroy(e)); }
CUDART_API cudaError_t cudaEventQuery(cudaEvent_t e) { FORWARD(cuEventQuery(e)); }
CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t e) { FORWARD(cuEventSynchronize(e)); }
CUDART_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  FORWARD(cuEventElapsedTime_v2(ms, a, b));
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
CUDART_API cudaError_t cudaMemset3D(cudaPitchedPtr p, int v, cudaExtent e) {
  RETURN_IF(enter());
  for (size_t z = 0; z < e.depth; ++z)
    RETURN_IF(as_runtime(cuMemsetD2D8(address(p.ptr) + z * p.pitch * p.ysize, p.pitch,
                                      static_cast<unsigned char>(v), e.width, e.height)));
  return cudaSuccess;
}
CUDART_API cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
  FORWARD(cuMemAllocAsync(reinterpret_cast<CUdeviceptr *>(p), n, s));
}
CUDART_API cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool,
                                               cudaStream_t s) {
  FORWARD(cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr *>(p), n, pool, s));
}
CUDART_API cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
  FORWARD(cuMemFreeAsync(address(p), s));
}
CUDART_API cudaError_t cudaMemPrefetchAsync(const void *p, size_t n, cudaMemLocation location,
                                            unsigned int flags, cudaStream_t s) {
  CUmemLocation l{};
  l.type = static_cast<CUmemLocationType>(location.type);
  l.id = location.id;
  FORWARD(cuMemPrefetchAsync(address(p), n, l, flags, s));
}

CUDART_API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t s) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(launch_error(
      cuLaunchKernel(reinterpret_cast<CUfunction>(k), grid.x, grid.y, grid.z, block.x, block.y,
                     block.z, static_cast<unsigned>(shared), s, args, nullptr),
      grid, block));
}
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif
CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                          size_t shared, cudaStream_t s) {
  return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, s);
}
CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                                   void **args, size_t shared, cudaStream_t s) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(launch_error(
      cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(k), grid.x, grid.y, grid.z, block.x,
                                block.y, block.z, static_cast<unsigned>(shared), s, args),
      grid, block));
}
CUDART_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                           void **args) {
  if (config == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  CUlaunchConfig c{};
  c.gridDimX = config->gridDim.x, c.gridDimY = config->gridDim.y, c.gridDimZ = config->gridDim.z;
  c.blockDimX = config->blockDim.x, c.blockDimY = config->blockDim.y,
  c.blockDimZ = config->blockDim.z;
  c.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  c.hStream = config->stream;
  // Both APIs' attributes are one structure.
  c.attrs = reinterpret_cast<CUlaunchAttribute *>(config->attrs);
  c.numAttrs = config->numAttrs;
  return keep(launch_error(cuLaunchKernelEx(&c, reinterpret_cast<CUfunction>(k), args, nullptr),
                           config->gridDim, config->blockDim));
}
CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data) {
  FORWARD(cuLaunchHostFunc(s, f, data));
}
CUDART_API cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void *data,
                                             unsigned int flags) {
  FORWARD(cuStreamAddCallback(s, reinterpret_cast<CUstreamCallback>(f), data, flags));
}
CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t s) { FORWARD(cuStreamSynchronize(s)); }
CUDART_API cudaError_t cudaStreamQuery(cudaStream_t s) { FORWARD(cuStreamQuery(s)); }
CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned int flags) {
  FORWARD(cuStreamWaitEvent(s, e, flags));
}
CUDART_API cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned int *flags) {
  FORWARD(cuStreamGetFlags(s, flags));
}
CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  FORWARD(cuStreamGetPriority(s, priority));
}
CUDART_API cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long *id) {
  FORWARD(cuStreamGetId(s, id));
}
CUDART_API cudaError_t cudaStreamGetDevice(cudaStream_t s, int *device) {
  FORWARD(cuStreamGetDevice(s, device));
}
CUDART_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t s, void *p, size_t n,
                                                unsigned int flags) {
  FORWARD(cuStreamAttachMemAsync(s, address(p), n, flags));
}
CUDART_API cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  FORWARD(cuEventRecord(e, s));
}
CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned int flags) {
  FORWARD(cuEventRecordWithFlags(e, s, flags));
}
CUDART_API cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  FORWARD(cuStreamBeginCapture(s, static_cast<CUstreamCaptureMode>(mode)));
}
CUDART_API cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
  FORWARD(cuStreamEndCapture(s, graph));
}
CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  FORWARD(cuStreamIsCapturing(s, reinterpret_cast<CUstreamCaptureStatus *>(status)));
}
CUDART_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  FORWARD(cuGraphLaunch(exec, s));
}
CUDART_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
  FORWARD(cuGraphUpload(exec, s));
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned int flags) {
  FORWARD(cuGraphCreate(g, flags));
}
CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t g) { FORWARD(cuGraphDestroy(g)); }
CUDART_API cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t g) {
  FORWARD(cuGraphClone(out, g));
}
CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g,
                                            unsigned long long flags) {
  FORWARD(cuGraphInstantiate(e, g, flags));
}
CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *e, cudaGraph_t g,
                                                     unsigned long long flags) {
  FORWARD(cuGraphInstantiate(e, g, flags));
}
CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { FORWARD(cuGraphExecDestroy(e)); }
CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
  FORWARD(cuGraphGetNodes(g, nodes, n));
}
CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
  FORWARD(cuGraphGetRootNodes(g, nodes, n));
}
CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType *type) {
  FORWARD(cuGraphNodeGetType(n, reinterpret_cast<CUgraphNodeType *>(type)));
}
CUDART_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t n) { FORWARD(cuGraphDestroyNode(n)); }
CUDART_API cudaError_t cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                                const cudaGraphNode_t *to,
                                                const cudaGraphEdgeData *, size_t n) {
  FORWARD(cuGraphAddDependencies(g, from, to, nullptr, n));
}
CUDART_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t g,
                                             const cudaGraphNode_t *after, size_t n) {
  FORWARD(cuGraphAddEmptyNode(out, g, after, n));
}
CUDART_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t g,
                                                  const cudaGraphNode_t *after, size_t n,
                                                  cudaGraph_t child) {
  FORWARD(cuGraphAddChildGraphNode(out, g, after, n, child));
}
CUDART_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t g,
                                            const cudaGraphNode_t *after, size_t n,
                                            const cudaHostNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS h{};
  h.fn = p->fn;
  h.userData = p->userData;
  FORWARD(cuGraphAddHostNode(out, g, after, n, &h));
}
CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaMemsetParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS m{};
  m.dst = address(p->dst);
  m.pitch = p->pitch;
  m.value = p->value;
  m.elementSize = p->elementSize;
  m.width = p->width;
  m.height = p->height;
  FORWARD(cuGraphAddMemsetNode(out, g, after, n, &m, nullptr));
}
CUDART_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuGraphAddMemcpyNode(out, g, after, n, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t g,
                                                const cudaGraphNode_t *after, size_t n, void *dst,
                                                const void *src, size_t bytes, cudaMemcpyKind) {
  CUDA_MEMCPY3D d = rows(dst, bytes, src, bytes, bytes, 1);
  FORWARD(cuGraphAddMemcpyNode(out, g, after, n, &d, nullptr));
}

static cudaError_t kernel_params(const cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS &k) {
  if (p == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t e = enter(); e != cudaSuccess) return e;
  CUkernel kernel = nullptr;
  if (cudaError_t e = kernel_of(p->func, kernel); e != cudaSuccess) return e;
  k.func = reinterpret_cast<CUfunction>(kernel);
  k.gridDimX = p->gridDim.x, k.gridDimY = p->gridDim.y, k.gridDimZ = p->gridDim.z;
  k.blockDimX = p->blockDim.x, k.blockDimY = p->blockDim.y, k.blockDimZ = p->blockDim.z;
  k.sharedMemBytes = p->sharedMemBytes;
  k.kernelParams = p->kernelParams;
  k.extra = p->extra;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphAddKernelNode(out, g, after, n, &k)));
}
CUDART_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                    const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphKernelNodeSetParams(node, &k)));
}
CUDART_API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                        const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphExecKernelNodeSetParams(e, node, &k)));
}
CUDART_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t e, cudaGraph_t g,
                                           cudaGraphExecUpdateResultInfo *info) {
  CUgraphExecUpdateResultInfo i{};
  RETURN_IF(enter());
  CUresult r = cuGraphExecUpdate(e, g, &i);
  if (info != nullptr) info->result = static_cast<cudaGraphExecUpdateResult>(i.result);
  return keep(as_runtime(r));
}
#endif
