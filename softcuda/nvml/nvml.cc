// SPDX-License-Identifier: Apache-2.0
//
// libnvidia-ml.so.1: what a resource manager asks about devices. The broker has the answers.
#include <cstdio>
#include <cstring>

#include "softcuda/broker/device_file.h"
#include "softcuda/nvml/session.h"

namespace ckpt::softcuda::nvml {

std::mutex mutex;
std::unique_ptr<broker::Client> client;

nvmlReturn_t index_of(nvmlDevice_t device, u32 &index) {
  if (!client) return NVML_ERROR_UNINITIALIZED;
  size_t n = reinterpret_cast<size_t>(device);
  if (n == 0 || n > client->devices().size()) return NVML_ERROR_INVALID_ARGUMENT;
  index = static_cast<u32>(n - 1);
  return NVML_SUCCESS;
}

}  // namespace ckpt::softcuda::nvml

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::nvml;

namespace {

constexpr const char *kDriverVersion = "580.00 (software)";
constexpr int kCudaVersion = 13000;
constexpr unsigned kNoInstance = 0xffffffff;

unsigned uses = 0;

// A handle is an index plus one.
nvmlDevice_t handle(unsigned index) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<size_t>(index) + 1);
}

nvmlReturn_t put(const std::string &text, char *out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

std::string uuid_text(const std::array<u8, 16> &u) {
  std::string text = "GPU-";
  for (size_t i = 0; i < u.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", u[i]);
  }
  return text;
}

}  // namespace

NVML_API nvmlReturn_t nvmlInit_v2() {
  Lock lock;
  if (uses++ > 0) return NVML_SUCCESS;
  Result<std::unique_ptr<broker::Client>> c = broker::Client::connect();
  if (!c) {
    --uses;
    return NVML_ERROR_DRIVER_NOT_LOADED;
  }
  client = std::move(*c);
  client->disconnect();
  open_nvml_file();  // NVIDIA's has its devices open until it is shut down
  return NVML_SUCCESS;
}
NVML_API nvmlReturn_t nvmlInit() { return nvmlInit_v2(); }
NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned int) { return nvmlInit_v2(); }

NVML_API nvmlReturn_t nvmlShutdown() {
  Lock lock;
  if (uses == 0) return NVML_ERROR_UNINITIALIZED;
  if (--uses > 0) return NVML_SUCCESS;
  client.reset();
  close_nvml_file();
  return NVML_SUCCESS;
}

NVML_API const char *nvmlErrorString(nvmlReturn_t e) {
  switch (e) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length) {
  return put(kDriverVersion, out, length);
}
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = kCudaVersion;
  return NVML_SUCCESS;
}
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  Lock lock;
  if (!client) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(client->devices().size());
  return NVML_SUCCESS;
}
NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) {
  return nvmlDeviceGetCount_v2(count);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  Lock lock;
  if (!client) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= client->devices().size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = handle(index);
  return NVML_SUCCESS;
}
NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  Lock lock;
  if (!client) return NVML_ERROR_UNINITIALIZED;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned i = 0; i < client->devices().size(); ++i)
    if (uuid_text(client->devices()[i].uuid) == uuid) {
      *device = handle(i);
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}

// The domain may have four or eight digits, or be left out.
NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
  Lock lock;
  if (!client) return NVML_ERROR_UNINITIALIZED;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (id == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = function = 0;
    if (std::sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2) return NVML_ERROR_INVALID_ARGUMENT;
  }
  for (unsigned i = 0; i < client->devices().size(); ++i)
    if (domain == 0 && bus == broker::pci_bus(i) && slot == 0 && function == 0) {
      *device = handle(i);
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out) {
  WITH_DEVICE(device, index);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = {};
  out->bus = broker::pci_bus(index);
  std::snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "0000:%02x:00.0", out->bus);
  std::snprintf(out->busId, sizeof out->busId, "00000000:%02x:00.0", out->bus);
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out) {
  WITH_DEVICE(device, index);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = index;
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *out) {
  return nvmlDeviceGetIndex(device, out);
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length) {
  WITH_DEVICE(device, index);
  return put(client->devices()[index].name, out, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length) {
  WITH_DEVICE(device, index);
  return put(uuid_text(client->devices()[index].uuid), out, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out) {
  WITH_DEVICE(device, index);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Result<broker::DeviceUse> use =
      ask<broker::DeviceUse>([&](broker::Client &c) { return c.use(index); });
  if (!use) return NVML_ERROR_UNKNOWN;
  *out = {use->total_bytes, use->free_bytes, use->total_bytes - use->free_bytes};
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out) {
  nvmlMemory_t m{};
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t e = nvmlDeviceGetMemoryInfo(device, &m); e != NVML_SUCCESS) return e;
  out->total = m.total;
  out->reserved = 0;
  out->free = m.free;
  out->used = m.used;
  return NVML_SUCCESS;
}

// *count: in, the size of `out`; out, the number of processes.
NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *out) {
  WITH_DEVICE(device, index);
  if (count == nullptr || (*count > 0 && out == nullptr)) return NVML_ERROR_INVALID_ARGUMENT;
  auto list =
      ask<std::vector<broker::ProcessUse>>([&](broker::Client &c) { return c.processes(index); });
  if (!list) return NVML_ERROR_UNKNOWN;
  bool fits = list->size() <= *count;
  *count = static_cast<unsigned>(list->size());
  if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < list->size(); ++i)
    out[i] = {static_cast<unsigned>((*list)[i].pid), (*list)[i].bytes, kNoInstance, kNoInstance};
  return NVML_SUCCESS;
}
NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *out) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, out);
}

// Properties that only hardware has. Programs such as hashcat look these functions up and give up
// on NVML if one is missing. The arguments are ignored.
#define NOT_SUPPORTED(function) \
  NVML_API nvmlReturn_t function() { return NVML_ERROR_NOT_SUPPORTED; }
NOT_SUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
NOT_SUPPORTED(nvmlDeviceGetBrand)
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetComputeMode)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetCurrentClocksThrottleReasons)
NOT_SUPPORTED(nvmlDeviceGetEccMode)
NOT_SUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
NOT_SUPPORTED(nvmlDeviceGetFanSpeed)
NOT_SUPPORTED(nvmlDeviceGetGraphicsRunningProcesses_v2)
NOT_SUPPORTED(nvmlDeviceGetGraphicsRunningProcesses_v3)
NOT_SUPPORTED(nvmlDeviceGetMaxClockInfo)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetPciInfo)
NOT_SUPPORTED(nvmlDeviceGetPcieThroughput)
NOT_SUPPORTED(nvmlDeviceGetPerformanceState)
NOT_SUPPORTED(nvmlDeviceGetPersistenceMode)
NOT_SUPPORTED(nvmlDeviceGetPowerManagementLimit)
NOT_SUPPORTED(nvmlDeviceGetSupportedClocksThrottleReasons)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetTemperatureThreshold)
