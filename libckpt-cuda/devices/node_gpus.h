// SPDX-License-Identifier: Apache-2.0
//
// The UUIDs of all GPUs of this machine, whether CUDA_VISIBLE_DEVICES shows them or not, and their
// memory.
//
// The driver's Restore needs a map of every GPU that the kernel's driver sees (device_map.h), but
// its own calls list only those that the process may use. Two documented interfaces list all: the
// files /proc/driver/nvidia/gpus/*/information, and NVML, which ignores CUDA_VISIBLE_DEVICES. The
// files come first, because reading them opens no device.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// Loads NVML, which takes the loader's lock; the functions below do not, if this was called before.
void load_nvml();

// As uuid_text() writes them; empty: not known.
std::vector<std::string> node_gpus();

// The UUID of the GPU with this PCI bus id; empty: not known.
std::string gpu_at(const char *pci_bus_id);

struct GpuMemory {
  std::string uuid;
  u64 free_bytes = 0;
  u64 own_bytes = 0;  // of this process; 0 also where NVML does not tell
};
// Of all GPUs, from NVML, whether the driver is checkpointed or not; empty: not known.
std::vector<GpuMemory> gpu_memory();

}  // namespace ckpt::cuda
