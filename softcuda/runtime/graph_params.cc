// SPDX-License-Identifier: Apache-2.0
#include "softcuda/runtime/graph_params.h"

namespace ckpt::softcuda::runtime {

cudaError_t kernel_params(const cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS &k) {
  if (p == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t e = enter(); e != cudaSuccess) return e;
  CUkernel kernel = nullptr;
  if (cudaError_t e = kernel_of(p->func, kernel); e != cudaSuccess) return e;
  k.func = reinterpret_cast<CUfunction>(kernel);
  k.gridDimX = p->gridDim.x;
  k.gridDimY = p->gridDim.y;
  k.gridDimZ = p->gridDim.z;
  k.blockDimX = p->blockDim.x;
  k.blockDimY = p->blockDim.y;
  k.blockDimZ = p->blockDim.z;
  k.sharedMemBytes = p->sharedMemBytes;
  k.kernelParams = p->kernelParams;
  k.extra = p->extra;
  return cudaSuccess;
}

CUDA_MEMSET_NODE_PARAMS memset_params(const cudaMemsetParams &p) {
  return {address(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
}

namespace {

cudaError_t kernel_params(const cudaKernelNodeParamsV2 &p, CUDA_KERNEL_NODE_PARAMS_v3 &out) {
  cudaKernelNodeParams older{};
  older.func = p.func;
  older.gridDim = p.gridDim;
  older.blockDim = p.blockDim;
  older.sharedMemBytes = p.sharedMemBytes;
  older.kernelParams = p.kernelParams;
  older.extra = p.extra;
  CUDA_KERNEL_NODE_PARAMS k{};
  if (cudaError_t e = runtime::kernel_params(&older, k); e != cudaSuccess) return e;
  std::memcpy(&out, &k, sizeof k);
  return cudaSuccess;
}
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v3) == sizeof(CUDA_KERNEL_NODE_PARAMS));

}  // namespace

cudaError_t driver_params(const cudaGraphNodeParams *p, CUgraphNodeParams &out) {
  if (p == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t e = enter(); e != cudaSuccess) return e;
  out.type = static_cast<CUgraphNodeType>(p->type);
  switch (p->type) {
    case cudaGraphNodeTypeKernel: return kernel_params(p->kernel, out.kernel);
    case cudaGraphNodeTypeMemcpy: out.memcpy.copyParams = box(p->memcpy.copyParams); break;
    case cudaGraphNodeTypeMemset:
      out.memset.dst = address(p->memset.dst);
      out.memset.pitch = p->memset.pitch;
      out.memset.value = p->memset.value;
      out.memset.elementSize = p->memset.elementSize;
      out.memset.width = p->memset.width;
      out.memset.height = p->memset.height;
      break;
    case cudaGraphNodeTypeHost:
      out.host.fn = p->host.fn;
      out.host.userData = p->host.userData;
      break;
    case cudaGraphNodeTypeGraph: out.graph.graph = p->graph.graph; break;
    case cudaGraphNodeTypeEventRecord: out.eventRecord.event = p->eventRecord.event; break;
    case cudaGraphNodeTypeWaitEvent: out.eventWait.event = p->eventWait.event; break;
    case cudaGraphNodeTypeMemAlloc: allocation_params(p->alloc, out.alloc); break;
    case cudaGraphNodeTypeMemFree: out.free.dptr = address(p->free.dptr); break;
    default: break;
  }
  return cudaSuccess;
}

cudaMemcpy3DParms parms_of(const CUDA_MEMCPY3D &d) {
  cudaMemcpy3DParms p{};
  CUarray either = d.dstArray != nullptr ? d.dstArray : d.srcArray;
  size_t element = element_bytes(either);
  p.srcArray = reinterpret_cast<cudaArray_t>(d.srcArray);
  p.dstArray = reinterpret_cast<cudaArray_t>(d.dstArray);
  p.srcPos = {d.srcXInBytes / (d.srcArray != nullptr ? element : 1), d.srcY, d.srcZ};
  p.dstPos = {d.dstXInBytes / (d.dstArray != nullptr ? element : 1), d.dstY, d.dstZ};
  if (d.srcArray == nullptr)
    p.srcPtr = {reinterpret_cast<void *>(d.srcDevice), d.srcPitch, d.WidthInBytes, d.srcHeight};
  if (d.dstArray == nullptr)
    p.dstPtr = {reinterpret_cast<void *>(d.dstDevice), d.dstPitch, d.WidthInBytes, d.dstHeight};
  p.extent = {d.WidthInBytes / element, d.Height, d.Depth};
  p.kind = cudaMemcpyDefault;
  return p;
}

}  // namespace ckpt::softcuda::runtime
