// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/nvml.h"

#include <dlfcn.h>

#include <array>
#include <type_traits>

namespace ckpt::cuda {
namespace {

// nvml.h is not part of every toolkit; these are its declarations.
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlPciInfo {
  char legacy_id[16] = {};
  unsigned domain = 0, bus = 0, device = 0, device_id = 0, subsystem_id = 0;
  char id[32] = {};
};

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned *) = nullptr;
  int (*handle)(unsigned, void **) = nullptr;
  int (*pci)(void *, NvmlPciInfo *) = nullptr;
  int (*uuid)(void *, char *, unsigned) = nullptr;
  int (*memory)(void *, NvmlMemory *) = nullptr;
  bool loaded() const { return init && shutdown && count && handle && uuid && memory; }
};

Nvml look_up_nvml() {
  Nvml n;
  void *library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return n;
  auto find = [&](const char *name, auto &entry) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(library, name));
  };
  find("nvmlInit_v2", n.init);
  find("nvmlShutdown", n.shutdown);
  find("nvmlDeviceGetCount_v2", n.count);
  find("nvmlDeviceGetHandleByIndex_v2", n.handle);
  find("nvmlDeviceGetPciInfo_v3", n.pci);
  find("nvmlDeviceGetUUID", n.uuid);
  find("nvmlDeviceGetMemoryInfo", n.memory);
  return n;
}

const Nvml &nvml() {
  static const Nvml kNvml = look_up_nvml();
  return kNvml;
}

// NVML is started for each question, and stopped: while it runs it has the device files open.
bool describe(void *device, GpuMemory &gpu) {
  std::array<char, 96> uuid{};
  NvmlMemory memory;
  NvmlPciInfo pci;
  if (nvml().uuid(device, uuid.data(), uuid.size()) != 0 || nvml().memory(device, &memory) != 0)
    return false;
  gpu.uuid = uuid.data();
  gpu.free_bytes = memory.free;
  if (nvml().pci != nullptr && nvml().pci(device, &pci) == 0) gpu.bus_id = bus_id_text(pci.id);
  return true;
}

}  // namespace

std::vector<GpuMemory> ask_nvml() {
  if (!nvml().loaded() || nvml().init() != 0) return {};
  std::vector<GpuMemory> all;
  unsigned count = 0;
  bool known = nvml().count(&count) == 0;
  for (unsigned i = 0; known && i < count; i++) {
    void *device = nullptr;
    known = nvml().handle(i, &device) == 0 && describe(device, all.emplace_back());
  }
  nvml().shutdown();
  return known ? all : std::vector<GpuMemory>();
}

void keep_nvml() {
  if (nvml().loaded()) nvml().init();
}

}  // namespace ckpt::cuda
