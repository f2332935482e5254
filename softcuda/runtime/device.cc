// SPDX-License-Identifier: Apache-2.0
//
// Devices, errors, attributes of functions.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "cuda/errors.h"
#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

using ckpt::api::ErrorName;

#define ERROR(name, text) \
  { name, #name, text }
constexpr ErrorName<cudaError_t> kErrors[] = {
#include "softcuda/runtime/errors.api"
};
#undef ERROR

const ErrorName<cudaError_t> *find(cudaError_t e) { return ckpt::api::find_error(kErrors, e); }

int attribute(int device, CUdevice_attribute a) {
  int v = 0;
  cuDeviceGetAttribute(&v, a, device);
  return v;
}

size_t size_attribute(int device, CUdevice_attribute a) {
  return static_cast<size_t>(attribute(device, a));
}

#define TEXTURE(name) attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE##name)
#define SURFACE(name) attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE##name)

void set(int *extents, std::initializer_list<int> values) {
  std::copy(values.begin(), values.end(), extents);
}

void set_texture_extents(cudaDeviceProp &p, int d) {
  p.maxTexture1D = TEXTURE(1D_WIDTH);
  p.maxTexture1DMipmap = TEXTURE(1D_MIPMAPPED_WIDTH);
  set(p.maxTexture2D, {TEXTURE(2D_WIDTH), TEXTURE(2D_HEIGHT)});
  set(p.maxTexture2DMipmap, {TEXTURE(2D_MIPMAPPED_WIDTH), TEXTURE(2D_MIPMAPPED_HEIGHT)});
  set(p.maxTexture2DLinear,
      {TEXTURE(2D_LINEAR_WIDTH), TEXTURE(2D_LINEAR_HEIGHT), TEXTURE(2D_LINEAR_PITCH)});
  set(p.maxTexture3D, {TEXTURE(3D_WIDTH), TEXTURE(3D_HEIGHT), TEXTURE(3D_DEPTH)});
  p.maxTextureCubemap = TEXTURE(CUBEMAP_WIDTH);
  set(p.maxTexture1DLayered, {TEXTURE(1D_LAYERED_WIDTH), TEXTURE(1D_LAYERED_LAYERS)});
  set(p.maxTexture2DLayered,
      {TEXTURE(2D_LAYERED_WIDTH), TEXTURE(2D_LAYERED_HEIGHT), TEXTURE(2D_LAYERED_LAYERS)});
  set(p.maxTextureCubemapLayered,
      {TEXTURE(CUBEMAP_LAYERED_WIDTH), TEXTURE(CUBEMAP_LAYERED_LAYERS)});
}

void set_surface_extents(cudaDeviceProp &p, int d) {
  p.maxSurface1D = SURFACE(1D_WIDTH);
  set(p.maxSurface2D, {SURFACE(2D_WIDTH), SURFACE(2D_HEIGHT)});
  set(p.maxSurface3D, {SURFACE(3D_WIDTH), SURFACE(3D_HEIGHT), SURFACE(3D_DEPTH)});
  p.maxSurfaceCubemap = SURFACE(CUBEMAP_WIDTH);
  set(p.maxSurface1DLayered, {SURFACE(1D_LAYERED_WIDTH), SURFACE(1D_LAYERED_LAYERS)});
  set(p.maxSurface2DLayered,
      {SURFACE(2D_LAYERED_WIDTH), SURFACE(2D_LAYERED_HEIGHT), SURFACE(2D_LAYERED_LAYERS)});
  set(p.maxSurfaceCubemapLayered,
      {SURFACE(CUBEMAP_LAYERED_WIDTH), SURFACE(CUBEMAP_LAYERED_LAYERS)});
}

#undef TEXTURE
#undef SURFACE

void fill_properties(cudaDeviceProp &p, int d) {
  cuDeviceGetName(p.name, sizeof p.name, d);
  CUuuid uuid{};
  cuDeviceGetUuid_v2(&uuid, d);
  std::memcpy(&p.uuid, &uuid, sizeof p.uuid);
  cuDeviceTotalMem(&p.totalGlobalMem, d);
  p.sharedMemPerBlock = size_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p.regsPerBlock = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p.warpSize = attribute(d, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p.memPitch = size_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p.maxThreadsPerBlock = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.maxThreadsDim[0] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  p.maxThreadsDim[1] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  p.maxThreadsDim[2] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  p.maxGridSize[0] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p.maxGridSize[1] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p.maxGridSize[2] = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p.totalConstMem = size_attribute(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p.major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.minor = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.textureAlignment = size_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  p.texturePitchAlignment = size_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  p.surfaceAlignment = size_attribute(d, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  p.multiProcessorCount = attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.canMapHostMemory = attribute(d, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  set_texture_extents(p, d);
  set_surface_extents(p, d);
  p.concurrentKernels = attribute(d, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  p.pciBusID = attribute(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  p.asyncEngineCount = attribute(d, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  p.unifiedAddressing = attribute(d, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  p.memoryBusWidth = attribute(d, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p.l2CacheSize = attribute(d, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.maxThreadsPerMultiProcessor = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p.streamPrioritiesSupported = attribute(d, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor =
      size_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.regsPerMultiprocessor = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p.managedMemory = attribute(d, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  p.concurrentManagedAccess = attribute(d, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  p.computePreemptionSupported = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = attribute(d, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  p.sharedMemPerBlockOptin =
      size_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.maxBlocksPerMultiProcessor = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  p.ipcEventSupported = attribute(d, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  p.hostRegisterSupported = attribute(d, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  p.memoryPoolsSupported = attribute(d, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
}

cudaError_t function_attributes(CUfunction f, cudaFuncAttributes &a) {
  auto get = [&](CUfunction_attribute which) {
    int v = 0;
    cuFuncGetAttribute(&v, which, f);
    return v;
  };
  int shared = 0;
  if (CUresult e = cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
      e != CUDA_SUCCESS)
    return as_runtime(e);
  a = {};
  a.sharedSizeBytes = static_cast<size_t>(shared);
  a.constSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  a.localSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  a.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  a.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  a.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  a.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  a.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  a.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}

CUfunction as_function(CUkernel k) { return reinterpret_cast<CUfunction>(k); }

}  // namespace

CUDART_API cudaError_t cudaGetLastError() { return last_error(true); }
CUDART_API cudaError_t cudaPeekAtLastError() { return last_error(false); }
CUDART_API const char *cudaGetErrorName(cudaError_t e) {
  const ErrorName<cudaError_t> *n = find(e);
  return n == nullptr ? "unrecognized error code" : n->name;
}
CUDART_API const char *cudaGetErrorString(cudaError_t e) {
  const ErrorName<cudaError_t> *n = find(e);
  return n == nullptr ? "unrecognized error code" : n->text;
}

CUDART_API cudaError_t cudaDriverGetVersion(int *version) {
  return keep(as_runtime(cuDriverGetVersion(version)));
}
CUDART_API cudaError_t cudaGetDeviceCount(int *count) {
  if (count == nullptr) return keep(cudaErrorInvalidValue);
  *count = 0;
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetCount(count)));
}
CUDART_API cudaError_t cudaGetDevice(int *device) {
  if (device == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(initialise());
  CUdevice d = 0;
  *device = cuCtxGetDevice(&d) == CUDA_SUCCESS ? d : device_of_thread();
  return cudaSuccess;
}
CUDART_API cudaError_t cudaSetDevice(int device) { return keep(set_device(device)); }
CUDART_API cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  RETURN_IF(initialise());
  CUcontext c = nullptr;
  return keep(as_runtime(cuDevicePrimaryCtxRetain(&c, device)));
}
CUDART_API cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDevicePrimaryCtxSetFlags(device_of_thread(), flags)));
}
CUDART_API cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
  RETURN_IF(initialise());
  int active = 0;
  return keep(as_runtime(cuDevicePrimaryCtxGetState(device_of_thread(), flags, &active)));
}
CUDART_API cudaError_t cudaDeviceReset() {
  RETURN_IF(initialise());
  RETURN_IF(as_runtime(cuDevicePrimaryCtxReset(device_of_thread())));
  last_error(true);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaDeviceSynchronize() { FORWARD(cuCtxSynchronize()); }
CUDART_API cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device) {
  RETURN_IF(initialise());
  return keep(
      as_runtime(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device)));
}
CUDART_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(initialise());
  int version = 0;
  RETURN_IF(as_runtime(cuDeviceGetAttribute(&version, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device)));
  *p = {};
  fill_properties(*p, device);
  return cudaSuccess;
}
// All devices are equal.
CUDART_API cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
  if (device == nullptr) return keep(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetPCIBusId(id, length, device)));
}
CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetByPCIBusId(device, id)));
}
CUDART_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  FORWARD(cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}
CUDART_API cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
  FORWARD(cuCtxGetLimit(value, static_cast<CUlimit>(limit)));
}
CUDART_API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *c) {
  FORWARD(cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache *>(c)));
}
CUDART_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache c) {
  FORWARD(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(c)));
}
CUDART_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  FORWARD(cuCtxGetStreamPriorityRange(least, greatest));
}
CUDART_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceCanAccessPeer(can, device, peer)));
}
CUDART_API cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr a, int from,
                                                 int to) {
  RETURN_IF(initialise());
  return keep(
      as_runtime(cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(a), from, to)));
}
CUDART_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  RETURN_IF(enter());
  CUcontext c = nullptr;
  RETURN_IF(as_runtime(cuDevicePrimaryCtxRetain(&c, peer)));
  return keep(as_runtime(cuCtxEnablePeerAccess(c, flags)));
}
CUDART_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  RETURN_IF(enter());
  CUcontext c = nullptr;
  RETURN_IF(as_runtime(cuDevicePrimaryCtxRetain(&c, peer)));
  return keep(as_runtime(cuCtxDisablePeerAccess(c)));
}
CUDART_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetDefaultMemPool(pool, device)));
}
CUDART_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGetMemPool(pool, device)));
}
CUDART_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceSetMemPool(device, pool)));
}

CUDART_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *function) {
  if (a == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(function_attributes(as_function(k), *a));
}
CUDART_API cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute a, int value) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(
      as_runtime(cuFuncSetAttribute(as_function(k), static_cast<CUfunction_attribute>(a), value)));
}
CUDART_API cudaError_t cudaFuncSetCacheConfig(const void *function, cudaFuncCache) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  return keep(kernel_of(function, k));
}
// Banks of shared memory have no size here, as on every device since sm_50.
CUDART_API cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
  if (config == nullptr) return keep(cudaErrorInvalidValue);
  *config = cudaSharedMemBankSizeFourByte;
  return keep(enter());
}
CUDART_API cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return keep(enter()); }
CUDART_API cudaError_t cudaFuncSetSharedMemConfig(const void *function, cudaSharedMemConfig) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  return keep(kernel_of(function, k));
}
CUDART_API cudaError_t cudaCtxResetPersistingL2Cache() { FORWARD(cuCtxResetPersistingL2Cache()); }
CUDART_API cudaError_t cudaSetValidDevices(int *devices, int n) {
  return keep(set_valid_devices(devices, n));
}
CUDART_API cudaError_t cudaFuncGetName(const char **name, const void *function) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(as_runtime(cuKernelGetName(name, k)));
}
CUDART_API cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset,
                                            size_t *bytes) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(as_runtime(cuKernelGetParamInfo(k, index, offset, bytes)));
}
CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared, unsigned int flags) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(as_runtime(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, as_function(k), threads, shared, flags)));
}
CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                     const void *function,
                                                                     int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}
CUDART_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes,
                                                                 const void *function, int blocks,
                                                                 int threads) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(
      as_runtime(cuOccupancyAvailableDynamicSMemPerBlock(bytes, as_function(k), blocks, threads)));
}
CUDART_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
CUDART_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
namespace {

using Clusters = CUresult (*)(int *, CUfunction, const CUlaunchConfig *);

cudaError_t clusters(Clusters ask, int *out, const void *function,
                     const cudaLaunchConfig_t *config) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  if (config == nullptr) return keep(cudaErrorInvalidValue);
  CUlaunchConfig c = as_driver(*config);
  return keep(as_runtime(ask(out, as_function(k), &c)));
}

}  // namespace

CUDART_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                            const cudaLaunchConfig_t *config) {
  return clusters(&cuOccupancyMaxPotentialClusterSize, size, function, config);
}
CUDART_API cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *function,
                                                      const cudaLaunchConfig_t *config) {
  return clusters(&cuOccupancyMaxActiveClusters, count, function, config);
}
