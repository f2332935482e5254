// SPDX-License-Identifier: Apache-2.0
//
// libnvidia-ml.so.1: what a resource manager asks about devices. The broker has the answers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "softcuda/broker/away.h"
#include "softcuda/broker/client.h"
#include "softcuda/broker/device_file.h"
#include "softcuda/device/model.h"
#include "softcuda/nvml/nvml_abi.h"

#define NVML_API extern "C" __attribute__((visibility("default")))

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

constexpr const char *kDriverVersion = "580.00 (software)";
constexpr int kCudaVersion = 13000;
constexpr unsigned kNoInstance = 0xffffffff;

std::mutex mutex;

// Waits while the driver of this process is away (softcuda/broker/away.h).
class Lock {
 public:
  Lock() {
    while (g_driver_away) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_{mutex, std::defer_lock};
};

std::unique_ptr<broker::Client> client;
unsigned uses = 0;

// A handle is an index plus one.
nvmlDevice_t handle(unsigned index) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<size_t>(index) + 1);
}

nvmlReturn_t index_of(nvmlDevice_t device, u32 &index) {
  if (!client) return NVML_ERROR_UNINITIALIZED;
  size_t n = reinterpret_cast<size_t>(device);
  if (n == 0 || n > client->devices().size()) return NVML_ERROR_INVALID_ARGUMENT;
  index = static_cast<u32>(n - 1);
  return NVML_SUCCESS;
}

// Connects to the broker for one question only, so that a program that monitors devices can be
// checkpointed.
template <class T>
Result<T> ask(const std::function<Result<T>(broker::Client &)> &question) {
  CKPT_CHECK(client->reconnect());
  Result<T> answer = question(*client);
  client->disconnect();
  return answer;
}

#define WITH_DEVICE(device, index) \
  Lock lock;                       \
  u32 index = 0;                   \
  if (nvmlReturn_t e = index_of(device, index); e != NVML_SUCCESS) return e

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

namespace {

// What the device's engines have done: only a device with a model has engines. Under the lock.
nvmlReturn_t engines_of(u32 index, Model &model, broker::EngineUse &out) {
  Result<std::optional<Model>> found = model_of_environment();
  if (!found || !*found) return NVML_ERROR_NOT_SUPPORTED;
  auto use = ask<broker::EngineUse>([&](broker::Client &c) { return c.engines(index); });
  if (!use) return NVML_ERROR_UNKNOWN;
  model = **found;
  out = *use;
  return NVML_SUCCESS;
}

// What a device with the power of the model would have consumed.
nvmlReturn_t with_power(nvmlDevice_t device,
                        const std::function<void(const Model &, const broker::EngineUse &)> &give) {
  WITH_DEVICE(device, index);
  Model model;
  broker::EngineUse use;
  if (nvmlReturn_t e = engines_of(index, model, use); e != NVML_SUCCESS) return e;
  if (!model.has_power()) return NVML_ERROR_NOT_SUPPORTED;
  give(model, use);
  return NVML_SUCCESS;
}

// What this process has last read of a device's engines, and the rates that followed from it.
struct Sample {
  broker::EngineUse use;
  nvmlUtilization_t rates{};
};

// The shortest that the reference of nvmlUtilization_t names.
constexpr i64 kSampleNanoseconds = 1'000'000'000 / 6;

unsigned percent(i64 part, i64 whole) {
  return static_cast<unsigned>(std::clamp<i64>(100 * part / whole, 0, 100));
}

nvmlUtilization_t rates_between(const broker::EngineUse &a, const broker::EngineUse &b) {
  i64 time = b.all - a.all;
  return {percent(b.kernels - a.kernels, time), percent(b.bus - a.bus, time)};
}

}  // namespace

// Between two calls of this process that are a sample period apart. Until then: whether an engine
// works at this moment. "memory" is the time of copies.
NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
  static std::map<u32, Sample> samples;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  WITH_DEVICE(device, index);
  Model model;
  broker::EngineUse use;
  if (nvmlReturn_t e = engines_of(index, model, use); e != NVML_SUCCESS) return e;
  auto [at, is_first] = samples.try_emplace(index);
  Sample &last = at->second;
  if (is_first || use.all < last.use.all)  // the latter: another broker's
    last = {use, {use.runs_kernel ? 100u : 0u, use.uses_bus ? 100u : 0u}};
  else if (use.all - last.use.all >= kSampleNanoseconds)
    last = {use, rates_between(last.use, use)};
  *out = last.rates;
  return NVML_SUCCESS;
}

// Millijoules since the driver was loaded: here since the broker's start.
NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                          unsigned long long *out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return with_power(device, [&](const Model &m, const broker::EngineUse &use) {
    constexpr double kMillijoules = 1e-6;  // of a watt for a nanosecond
    double sum = m.idle * static_cast<double>(use.all) +
                 m.active * static_cast<double>(use.kernels) +
                 m.copying * static_cast<double>(use.bus);
    *out = static_cast<unsigned long long>(sum * kMillijoules);
  });
}

// Milliwatts at this moment.
NVML_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return with_power(device, [&](const Model &m, const broker::EngineUse &use) {
    double watts = m.idle + (use.runs_kernel ? m.active : 0) + (use.uses_bus ? m.copying : 0);
    *out = static_cast<unsigned>(watts * 1e3);
  });
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
