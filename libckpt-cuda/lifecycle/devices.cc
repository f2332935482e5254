// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/devices.h"

#include <algorithm>
#include <array>

#include "common/base/log.h"
#include "common/base/units.h"
#include "driver-checkpoint/uuid.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

DeviceInfo describe(int number, CUdevice d) {
  std::array<char, 256> name{};
  CUuuid uuid{};
  size_t bytes = 0;
  int major = 0, minor = 0;
  driver().cuDeviceGetName(name.data(), name.size() - 1, d);
  driver().cuDeviceGetUuid_v2(&uuid, d);
  driver().cuDeviceTotalMem_v2(&bytes, d);
  driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
  driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
  return {number, name.data(), uuid_text(uuid), bytes, 10 * major + minor};
}

std::string place_after(const std::string &uuid, const DeviceMap &map) {
  for (auto &[from, to] : map)
    if (from == uuid) return to;
  return uuid;
}

}  // namespace

std::vector<DeviceInfo> visible_devices() {
  std::vector<DeviceInfo> all;
  int count = 0;
  driver().cuDeviceGetCount(&count);
  for (int i = 0; i < count; i++) {
    CUdevice d = 0;
    if (driver().cuDeviceGet(&d, i) == CUDA_SUCCESS) all.push_back(describe(i, d));
  }
  return all;
}

Devices read_devices() {
  Devices d{visible_devices(), {}};
  driver().cuDriverGetVersion(&d.driver_version);
  return d;
}

std::vector<std::string> all_gpus(OutsideGpus &outside) {
  std::vector<std::string> all = gpus_in_files();
  if (!all.empty()) return all;
  for (const GpuMemory &gpu : outside.ask()) all.push_back(gpu.uuid);
  return all;
}

void note_driver_bytes(std::vector<DeviceInfo> &devices, const std::vector<GpuMemory> &before,
                       const std::vector<GpuMemory> &after) {
  for (DeviceInfo &d : devices) {
    auto was = std::ranges::find(before, d.uuid, &GpuMemory::uuid);
    auto is = std::ranges::find(after, d.uuid, &GpuMemory::uuid);
    if (!d.used || was == before.end() || is == after.end()) continue;
    d.driver_bytes = is->free_bytes > was->free_bytes ? is->free_bytes - was->free_bytes : 0;
  }
}

Result<> devices_have_room(const std::vector<DeviceInfo> &before, const DeviceMap &map,
                           const std::vector<GpuMemory> &now, Served served) {
  for (const DeviceInfo &d : before) {
    u64 needed = d.driver_bytes + (served == Served::Released ? served_bytes(d.number) : 0);
    auto place = std::ranges::find(now, place_after(d.uuid, map), &GpuMemory::uuid);
    if (d.driver_bytes > 0 && place != now.end() && place->free_bytes < needed)
      return fail_with_hint(
          fmt::format("{} has {} free, and the program needs {} there, {} of them for "
                      "the CUDA driver",
                      place->uuid, mebibytes(place->free_bytes), mebibytes_needed(needed),
                      mebibytes(d.driver_bytes)),
          "free memory of the device, or use another one");
  }
  return {};
}

void warn_of_stale_bus_ids(const std::vector<GpuMemory> &gpus) {
  for (const DeviceInfo &d : visible_devices()) {
    std::array<char, 32> id{};
    CUdevice device = 0;
    if (driver().cuDeviceGet(&device, d.number) != CUDA_SUCCESS ||
        driver().cuDeviceGetPCIBusId(id.data(), id.size(), device) != CUDA_SUCCESS)
      continue;
    auto there = std::ranges::find(gpus, bus_id_text(id.data()), &GpuMemory::bus_id);
    if (there != gpus.end() && there->uuid != d.uuid)
      log::warn(
          "the CUDA driver still says that device {} has the PCI bus id {}, which is another GPU: "
          "libraries that look devices up by it (NCCL, NVML) may fail after this move",
          d.number, id.data());
  }
}

Result<> check_moved(const std::vector<DeviceInfo> &before, const DeviceMap &map) {
  std::vector<DeviceInfo> now = visible_devices();
  for (size_t i = 0; i < before.size(); i++) {
    std::string wanted = place_after(before[i].uuid, map);
    std::string found = i < now.size() ? now[i].uuid : "no device";
    if (found != wanted)
      return fail_with_hint(
          fmt::format("the CUDA driver has not moved device {} of the process: it is {} instead of "
                      "{}",
                      i, found, wanted),
          "resume it on the device that it had; another version of the driver may move it");
  }
  return {};
}

}  // namespace ckpt::cuda
