// SPDX-License-Identifier: Apache-2.0
//
// Device memory of all programs except the guests, summed over the devices.
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

// Measured by NVML (manager/daemon/measure/nvml.h), which knows the memory of each process.
std::unique_ptr<DeviceMemory> memory_by_meter(std::unique_ptr<manager::Meter> meter);
// From ckptd's status, at this socket ("": the usual one): for devices that NVML does not know, the
// memory of the programs under ckptd.
std::unique_ptr<DeviceMemory> memory_by_manager(std::string socket);

// `source`: "auto", "nvml", "ckptd" or "none"; Returns null if nothing is measured. auto: NVML if
// the machine has an NVIDIA GPU, otherwise ckptd if it runs.
Result<std::unique_ptr<DeviceMemory>> find_device_memory(const std::string &source,
                                                         const std::string &nvml_library,
                                                         const std::string &manager_socket);

// The device memory that was held after boot: the smallest amount seen so far, which a file stores.
// Programs that already held more when ckpt-idled was first started are not part of it.
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
