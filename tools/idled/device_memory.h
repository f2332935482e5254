// SPDX-License-Identifier: Apache-2.0
//
// Device memory that all programs but the guests hold, summed over the devices.
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"
#include "tools/idled/guests.h"

namespace ckpt::tools {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Result<u64> owner_bytes(const Guests &guests) = 0;
};

// By NVML (manager/daemon/measure/nvml.h), which knows what each process holds.
std::unique_ptr<DeviceMemory> memory_by_meter(std::unique_ptr<manager::Meter> meter);
// By ckptd's status, at this socket ("": the usual one): for devices that NVML does not know, what
// programs under ckptd hold.
std::unique_ptr<DeviceMemory> memory_by_manager(std::string socket);

// `source`: "auto", "nvml", "ckptd" or "none"; null: nothing measures. auto: NVML where the machine
// has an NVIDIA GPU, otherwise ckptd where it runs.
Result<std::unique_ptr<DeviceMemory>> find_device_memory(const std::string &source,
                                                         const std::string &nvml_library,
                                                         const std::string &manager_socket);

// What was held after boot, of which a file remembers the least that was ever seen: whatever held
// more when ckpt-idled started for the first time was not part of the boot.
class BootMemory {
 public:
  // `file`: in a folder that a boot empties.
  explicit BootMemory(std::string file);
  u64 more_than_after_boot(u64 bytes);

 private:
  std::string file_;
  std::optional<u64> least_;
};

}  // namespace ckpt::tools
