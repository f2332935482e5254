// SPDX-License-Identifier: Apache-2.0
//
// cuInit, cuDriver*, cuDevice*.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "softcuda/driver/lifecycle/start.h"
#include "softcuda/driver/state/process.h"
#include "softcuda/driver/state/strict.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

struct AttributeValue {
  int attribute;
  int value;
};

// All other attributes are 0, which means "not supported".
constexpr AttributeValue kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedPerBlock},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, kMultiprocessors},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, kLinearTextureElements},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, kThreadsPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, kSharedPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedPerBlockOptin},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, kBlocksPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1}};

int bus_behind(CUdevice d) {
  return static_cast<int>(broker::pci_bus(client().broker_index(static_cast<ckpt::u32>(d))));
}

// Of the device behind `d`, as NVML numbers them: CUDA_VISIBLE_DEVICES and a restore on another
// device change what `d` is. With CKPT_SOFTCUDA_STALE_PCI, what it was at cuInit.
int bus_of(CUdevice d) {
  static const bool kStale = std::getenv("CKPT_SOFTCUDA_STALE_PCI") != nullptr;
  static std::map<CUdevice, int> *const kFirst = new std::map<CUdevice, int>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  int first = kFirst->try_emplace(d, bus_behind(d)).first->second;
  return kStale ? first : bus_behind(d);
}

std::string bus_id(CUdevice d) { return fmt::format("0000:{:02x}:00.0", bus_of(d)); }

}  // namespace

SOFTCUDA_API CUresult cuInit(unsigned int flags) {
  REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(!is_away(), CUDA_ERROR_DEVICE_UNAVAILABLE);
  CUresult e = initialise();
  for (int i = 0; e == CUDA_SUCCESS && device_at(i) != nullptr; ++i) (void)bus_of(i);
  return e;
}

SOFTCUDA_API CUresult cuDriverGetVersion(int *version) {
  REQUIRE(version != nullptr, CUDA_ERROR_INVALID_VALUE);
  *version = driver_version();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetCount(int *count) {
  CALL_INITIALISED();
  REQUIRE(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = static_cast<int>(process().devices.size());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CALL_INITIALISED();
  REQUIRE(device != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(ordinal) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(name != nullptr && length > 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  std::snprintf(name, static_cast<size_t>(length), "%s", d->name.c_str());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(uuid != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *uuid = d->uuid;
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
SOFTCUDA_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

SOFTCUDA_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(bytes != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *bytes = d->total_bytes;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                           CUdevice device) {
  CALL_INITIALISED();
  REQUIRE(value != nullptr && attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(device) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *value = 0;
  for (const AttributeValue &a : kAttributes)
    if (a.attribute == attribute) *value = a.value;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = static_cast<int>(process().sm / 10);
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = static_cast<int>(process().sm % 10);
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = bus_of(device);
  if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
    *value = rdma_capable();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  CALL_INITIALISED();
  REQUIRE(major != nullptr && minor != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(device) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *major = static_cast<int>(process().sm / 10);
  *minor = static_cast<int>(process().sm % 10);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  CALL_INITIALISED();
  REQUIRE(id != nullptr && length > 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(device) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  std::snprintf(id, static_cast<size_t>(length), "%s", bus_id(device).c_str());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  CALL_INITIALISED();
  REQUIRE(device != nullptr && id != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (int i = 0; device_at(i) != nullptr; ++i) {
    std::string own = bus_id(i);
    // The domain, "0000:", may be left out.
    if (own != id && own.substr(5) != id) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SOFTCUDA_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  CALL_INITIALISED();
  REQUIRE(can != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(device) != nullptr && device_at(peer) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *can = device != peer;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                              CUdevice from, CUdevice to) {
  CALL_INITIALISED();
  REQUIRE(value != nullptr && from != to, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(device_at(from) != nullptr && device_at(to) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : 1;
  return CUDA_SUCCESS;
}
