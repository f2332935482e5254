// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this machine, whether CUDA_VISIBLE_DEVICES shows them or not, and their memory.
//
// The driver's Restore needs a map of every GPU that the kernel's driver sees (device_map.h), but
// its own calls list only those that the process may use. Two documented interfaces list all: the
// files /proc/driver/nvidia/gpus/*/information, and NVML, which ignores CUDA_VISIBLE_DEVICES. The
// files come first, because reading them opens no device. NVML is asked in other processes only
// (proxy/nvml.h, outside_gpus.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

struct GpuMemory {
  std::string uuid;    // as uuid_text() writes it
  std::string bus_id;  // as bus_id_text() writes it; empty: not known
  u64 free_bytes = 0;
};

// The UUIDs of all GPUs, from the files. Empty: not known.
std::vector<std::string> gpus_in_files();

// "00000000:3b:00.0" for "0000:3B:00.0", so that the forms of the driver and of NVML compare equal.
std::string bus_id_text(const char *bus_id);

}  // namespace ckpt::cuda
