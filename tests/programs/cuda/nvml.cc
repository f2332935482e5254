// SPDX-License-Identifier: Apache-2.0
//
// What a resource manager sees: prints one line for each device and each process with its memory.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "../../../softcuda/nvml/nvml_abi.h"

template <class F>
static F *get(void *library, const char *name) {
  void *p = dlsym(library, name);
  if (p == nullptr) std::printf("libnvidia-ml.so.1 has no function %s\n", name), std::exit(1);
  return reinterpret_cast<F *>(p);
}

#define CALL(name, type, ...)                                                                      \
  if (nvmlReturn_t e_ = get<nvmlReturn_t type>(library, #name)(__VA_ARGS__); e_ != NVML_SUCCESS) { \
    std::printf("%s: %d\n", #name, e_);                                                            \
    return 1;                                                                                      \
  }

int main() {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  unsigned count = 0;
  CALL(nvmlInit_v2, ());
  CALL(nvmlDeviceGetCount_v2, (unsigned *), &count);
  for (unsigned i = 0; i < count; ++i) {
    nvmlDevice_t device, same;
    char name[96], uuid[96];
    nvmlMemory_t memory;
    CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), i, &device);
    CALL(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned), device, name, sizeof name);
    CALL(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned), device, uuid, sizeof uuid);
    CALL(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *), uuid, &same);
    CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *), device, &memory);
    std::printf("device %u %s %s %llu %llu %d\n", i, name, uuid, memory.total >> 20,
                memory.used >> 20, device == same);
    unsigned milliwatts = 0;
    unsigned long long before = 0, after = 0;
    auto *energy = get<nvmlReturn_t(nvmlDevice_t, unsigned long long *)>(
        library, "nvmlDeviceGetTotalEnergyConsumption");
    if (energy(device, &before) == NVML_SUCCESS) {  // only with a model that has power
      CALL(nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, &milliwatts);
      usleep(200'000);
      if (energy(device, &after) != NVML_SUCCESS) return 1;
      std::printf("power %u mW, %llu mJ in 0.2 s\n", milliwatts, after - before);
    }
    nvmlUtilization_t rates{};  // only with a model
    auto *utilization = get<nvmlReturn_t(nvmlDevice_t, nvmlUtilization_t *)>(
        library, "nvmlDeviceGetUtilizationRates");
    if (utilization(device, &rates) == NVML_SUCCESS) {
      usleep(200'000);
      if (utilization(device, &rates) != NVML_SUCCESS) return 1;
      std::printf("busy %u %% with kernels, %u %% with copies\n", rates.gpu, rates.memory);
    }
    unsigned celsius = 0;  // the software device has no sensor
    if (get<nvmlReturn_t(nvmlDevice_t, int, unsigned *)>(library, "nvmlDeviceGetTemperature")(
            device, 0, &celsius) != NVML_ERROR_NOT_SUPPORTED)
      return 1;
    unsigned n = 8;
    nvmlProcessInfo_t list[8];
    CALL(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, nvmlProcessInfo_t *),
         device, &n, list);
    for (unsigned k = 0; k < n; ++k)
      std::printf("process %u %llu\n", list[k].pid, list[k].usedGpuMemory >> 20);
  }
  CALL(nvmlShutdown, ());
  return 0;
}
