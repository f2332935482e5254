// SPDX-License-Identifier: Apache-2.0
//
// Allocation, pointer attributes, memory pools.
#include <cstring>

#include "softcuda/runtime/boxes.h"
#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

cudaMemoryType type_of(CUmemorytype t, bool managed) {
  if (managed) return cudaMemoryTypeManaged;
  return t == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

}  // namespace

CUDART_API cudaError_t cudaMalloc(void **p, size_t bytes) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  if (bytes == 0) {
    *p = nullptr;
    return cudaSuccess;
  }
  FORWARD(cuMemAlloc(device_pointer(p), bytes));
}
CUDART_API cudaError_t cudaFree(void *p) { FORWARD(cuMemFree(address(p))); }
CUDART_API cudaError_t cudaMallocHost(void **p, size_t bytes) {
  FORWARD(cuMemHostAlloc(p, bytes, 0));
}
CUDART_API cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags) {
  FORWARD(cuMemHostAlloc(p, bytes, flags));
}
CUDART_API cudaError_t cudaFreeHost(void *p) { FORWARD(cuMemFreeHost(p)); }
CUDART_API cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags) {
  FORWARD(cuMemHostRegister(p, bytes, flags));
}
CUDART_API cudaError_t cudaHostUnregister(void *p) { FORWARD(cuMemHostUnregister(p)); }
CUDART_API cudaError_t cudaHostGetFlags(unsigned int *flags, void *p) {
  FORWARD(cuMemHostGetFlags(flags, p));
}
CUDART_API cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned int flags) {
  FORWARD(cuMemHostGetDevicePointer(device_pointer(out), p, flags));
}
CUDART_API cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned int flags) {
  FORWARD(cuMemAllocManaged(device_pointer(p), bytes, flags));
}
CUDART_API cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  FORWARD(cuMemAllocPitch(device_pointer(p), pitch, width, height, 4));
}
CUDART_API cudaError_t cudaMalloc3D(cudaPitchedPtr *p, cudaExtent e) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  p->xsize = e.width;
  p->ysize = e.height;
  FORWARD(cuMemAllocPitch(device_pointer(&p->ptr), &p->pitch, e.width, e.height * e.depth, 4));
}
CUDART_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  FORWARD(cuMemGetInfo(free, total));
}

CUDART_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p) {
  if (a == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  *a = {};
  a->type = cudaMemoryTypeUnregistered;
  a->device = cudaInvalidDeviceId;
  a->hostPointer = const_cast<void *>(p);
  CUmemorytype type{};
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(p)) != CUDA_SUCCESS)
    return cudaSuccess;
  unsigned managed = 0;
  cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(p));
  cuPointerGetAttribute(&a->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address(p));
  a->type = type_of(type, managed != 0);
  a->devicePointer = const_cast<void *>(p);
  if (a->type == cudaMemoryTypeDevice) a->hostPointer = nullptr;
  return cudaSuccess;
}

CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props) {
  if (props == nullptr) return keep(cudaErrorInvalidValue);
  CUmemPoolProps p{};
  p.allocType = static_cast<CUmemAllocationType>(props->allocType);
  p.handleTypes = static_cast<CUmemAllocationHandleType>(props->handleTypes);
  p.location.type = static_cast<CUmemLocationType>(props->location.type);
  p.location.id = props->location.id;
  FORWARD(cuMemPoolCreate(pool, &p));
}
CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { FORWARD(cuMemPoolDestroy(pool)); }
CUDART_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  FORWARD(cuMemPoolTrimTo(pool, bytes));
}
CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr a, void *value) {
  FORWARD(cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(a), value));
}
CUDART_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr a, void *value) {
  FORWARD(cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(a), value));
}
// The descriptions have the same layout in both APIs.
CUDART_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *access,
                                            size_t n) {
  FORWARD(cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc *>(access), n));
}
CUDART_API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                            cudaMemLocation *location) {
  FORWARD(cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags *>(flags), pool,
                             reinterpret_cast<CUmemLocation *>(location)));
}
CUDART_API cudaError_t cudaMemRangeGetAttribute(void *out, size_t bytes, cudaMemRangeAttribute a,
                                                const void *p, size_t count) {
  FORWARD(
      cuMemRangeGetAttribute(out, bytes, static_cast<CUmem_range_attribute>(a), address(p), count));
}
CUDART_API cudaError_t cudaMemRangeGetAttributes(void **out, size_t *bytes,
                                                 cudaMemRangeAttribute *attributes, size_t n,
                                                 const void *p, size_t count) {
  FORWARD(cuMemRangeGetAttributes(out, bytes, reinterpret_cast<CUmem_range_attribute *>(attributes),
                                  n, address(p), count));
}
// All memory is equally fast, so advice has no effect.
CUDART_API cudaError_t cudaMemAdvise(const void *p, size_t, cudaMemoryAdvise, cudaMemLocation) {
  RETURN_IF(enter());
  unsigned managed = 0;
  cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(p));
  return keep(managed != 0 ? cudaSuccess : cudaErrorInvalidValue);
}
