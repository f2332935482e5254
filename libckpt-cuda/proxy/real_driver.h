// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver of this machine and its devices, for tools, before any program runs. "Real"
// means: not our own libcuda.so.1.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::cuda {

struct RealDriver {
  std::string path;       // empty: no driver was found
  bool software = false;  // the software device, because this machine has no GPU
};
// Finds the driver and does not start it. CKPT_CUDA_DRIVER overrides the search.
RealDriver find_driver();

// Where NVML is not in a folder of the loader.
void load_nvml_of(const RealDriver &driver);

struct RealDevice {
  std::string name;
  std::string uuid;
  unsigned long long memory_bytes = 0;
  unsigned long long free_bytes = 0;
  int capability = 0;  // ten times the compute capability: 90 for 9.0
};
// Empty where the driver finds no device. Starts the driver, which may take seconds on a GPU.
// free_bytes is 0 unless `with_free` is set: where NVML does not tell, it costs a context on each
// device.
Result<std::vector<RealDevice>> list_devices(const RealDriver &driver, bool with_free);
// As cuDriverGetVersion reports it: 13000 for CUDA 13.0; 0: not known.
int driver_version(const RealDriver &driver);

}  // namespace ckpt::cuda
