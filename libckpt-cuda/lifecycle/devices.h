// SPDX-License-Identifier: Apache-2.0
//
// The devices that this process sees, and the other GPUs of the machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "libckpt-cuda/devices/device_map.h"
#include "libckpt-cuda/devices/outside_gpus.h"

namespace ckpt::cuda {

struct DeviceInfo {
  int number = 0;
  std::string name;
  std::string uuid;  // as uuid_text() writes it
  u64 memory_bytes = 0;
  int capability = 0;    // ten times the compute capability: 90 for 9.0
  u64 driver_bytes = 0;  // of this process and not ours: contexts, pools, arrays; 0: not known
  bool used = false;     // it has a context of this process
};
std::vector<DeviceInfo> visible_devices();

// The properties of devices that a checkpoint needs. They are read while the driver runs, because
// it answers no call while it is checkpointed.
struct Devices {
  std::vector<DeviceInfo> visible;
  std::vector<std::string> gpus;  // all of the machine (devices/node_gpus.h); empty: not known
  int driver_version = 0;
};
Devices read_devices();  // without `gpus`

// The UUIDs of all GPUs of this machine; empty: not known.
std::vector<std::string> all_gpus(OutsideGpus &outside);

// Notes the driver's share of each used device: by how much its free memory has grown while the
// driver left it. NVML's list of processes does not tell, because it has other PIDs than those of a
// PID namespace. Where other processes come and go meanwhile, the share is only an estimate.
void note_driver_bytes(std::vector<DeviceInfo> &devices, const std::vector<GpuMemory> &before,
                       const std::vector<GpuMemory> &after);

// Where the memory that this library serves is: given back to the devices, or kept on them by its
// owner (owned_memory.h), so that it needs no more room.
enum class Served : u8 { Released, WithOwner };
// Whether the places of `before` have room for the driver's share and for our blocks. If that
// cannot be determined, there is enough room.
Result<> devices_have_room(const std::vector<DeviceInfo> &before, const DeviceMap &map,
                           const std::vector<GpuMemory> &now, Served served);

// The visible devices, after a move with `map` from `before`: an error if one is not where the map
// says. A driver's Restore may succeed and move nothing (NVIDIA/cuda-python test_checkpoint.py).
Result<> check_moved(const std::vector<DeviceInfo> &before, const DeviceMap &map);

// Warns of devices with another PCI bus id than NVML knows: a driver's Restore on another device
// may leave the old id in the process (NVIDIA/cuda-checkpoint#48), and NCCL looks devices up by it.
void warn_of_stale_bus_ids(const std::vector<GpuMemory> &gpus);

}  // namespace ckpt::cuda
