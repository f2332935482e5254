// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/devices/node_gpus.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "common/base/bytes.h"
#include "common/base/file_text.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *kProcFolder = "/proc/driver/nvidia/gpus";
constexpr unsigned kMaxProcesses = 256;
constexpr std::string_view kUuidLine = "GPU UUID:";

// Empty: the file has none, or one of question marks, which the driver writes before the GPU's
// first use.
std::string uuid_in(const fs::path &information) {
  std::istringstream in(file_text(information).value_or(""));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kUuidLine)) continue;
    size_t at = line.find("GPU-", kUuidLine.size());
    if (at == std::string::npos || line.find('?') != std::string::npos) return {};
    return line.substr(at, line.find_last_not_of(" \t\r") + 1 - at);
  }
  return {};
}

std::vector<std::string> gpus_in_proc() {
  std::vector<std::string> all;
  std::error_code ec;
  for (const fs::directory_entry &gpu : fs::directory_iterator(kProcFolder, ec))
    all.push_back(uuid_in(gpu.path() / "information"));
  if (std::ranges::find(all, "") != all.end()) return {};
  std::ranges::sort(all);
  return all;
}

// nvml.h is not part of every toolkit; these are its declarations.
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned *) = nullptr;
  int (*handle)(unsigned, void **) = nullptr;
  int (*at_bus)(const char *, void **) = nullptr;
  int (*uuid)(void *, char *, unsigned) = nullptr;
  int (*memory)(void *, NvmlMemory *) = nullptr;
  int (*processes)(void *, unsigned *, NvmlProcess *) = nullptr;
  bool loaded() const { return init && shutdown && count && handle && uuid && memory && processes; }
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
  find("nvmlDeviceGetHandleByPciBusId_v2", n.at_bus);
  find("nvmlDeviceGetUUID", n.uuid);
  find("nvmlDeviceGetMemoryInfo", n.memory);
  find("nvmlDeviceGetComputeRunningProcesses_v3", n.processes);
  return n;
}

const Nvml &nvml() {
  static const Nvml kNvml = look_up_nvml();
  return kNvml;
}

// NVML is started for each question, and stopped: while it runs it has the device files open.
template <class T>
std::vector<T> ask_each_gpu(bool (*ask)(void *device, T &answer)) {
  if (!nvml().loaded() || nvml().init() != 0) return {};
  std::vector<T> all;
  unsigned count = 0;
  bool known = nvml().count(&count) == 0;
  for (unsigned i = 0; known && i < count; i++) {
    void *device = nullptr;
    known = nvml().handle(i, &device) == 0 && ask(device, all.emplace_back());
  }
  nvml().shutdown();
  return known ? all : std::vector<T>();
}

bool ask_uuid(void *device, std::string &uuid) {
  std::array<char, 96> text{};
  if (nvml().uuid(device, text.data(), text.size()) != 0) return false;
  uuid = text.data();
  return true;
}

u64 own_bytes(void *device) {
  std::array<NvmlProcess, kMaxProcesses> all{};
  unsigned count = kMaxProcesses;
  if (nvml().processes(device, &count, all.data()) != 0) return 0;
  for (unsigned i = 0; i < std::min(count, kMaxProcesses); i++)
    if (static_cast<pid_t>(all[i].pid) == ::getpid()) return all[i].bytes;
  return 0;
}

bool ask_memory(void *device, GpuMemory &answer) {
  NvmlMemory memory;
  if (!ask_uuid(device, answer.uuid) || nvml().memory(device, &memory) != 0) return false;
  answer.free_bytes = memory.free;
  answer.own_bytes = own_bytes(device);
  return true;
}

}  // namespace

void load_nvml() { (void)nvml(); }

std::vector<std::string> node_gpus() {
  std::vector<std::string> in_files = gpus_in_proc();
  return in_files.empty() ? ask_each_gpu(ask_uuid) : in_files;
}

std::string gpu_at(const char *pci_bus_id) {
  if (!nvml().loaded() || nvml().at_bus == nullptr || nvml().init() != 0) return {};
  void *device = nullptr;
  std::string uuid;
  if (nvml().at_bus(pci_bus_id, &device) == 0) ask_uuid(device, uuid);
  nvml().shutdown();
  return uuid;
}

std::vector<GpuMemory> gpu_memory() { return ask_each_gpu(ask_memory); }

}  // namespace ckpt::cuda
