// SPDX-License-Identifier: Apache-2.0
//
// Strict: a file in memory in the place of /dev/nvidia*. The driver and NVML each hold descriptors
// of one, the driver maps it, and ckpt knows it by its name (common/base/driver_files.h).
#pragma once

#include <atomic>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt::softcuda {

// CKPT_SOFTCUDA_STRICT=1: the device is as strict as NVIDIA's driver (docs/SOFTCUDA.md).
bool strict();

UniqueFd open_device_file(u64 bytes);

// NVML's descriptor of its devices; -1: it has none open. The driver's Checkpoint closes it, too,
// and Restore opens it again: programs with NVML open were dumped with driver 580.159.04. Shared by
// both libraries as g_driver_away is (away.h).
[[gnu::visibility("default")]] inline std::atomic<int> g_nvml_file{-1};

void open_nvml_file();
// Whether it was open.
bool close_nvml_file();

}  // namespace ckpt::softcuda
