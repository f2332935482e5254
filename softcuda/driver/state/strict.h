// SPDX-License-Identifier: Apache-2.0
//
// Where NVIDIA's driver is less kind than the software device: settings that make it as strict, and
// faults to order. docs/SOFTCUDA.md, "As strict as a driver", lists them with their sources.
#pragma once

#include <cuda.h>

#include "softcuda/broker/device_file.h"

namespace ckpt::softcuda::driver {

// CUDA_MODULE_LOADING: a kernel is loaded when it is first needed, which is the default. With EAGER
// it is loaded with its module. NVIDIA's driver may synchronise the context when it loads a
// kernel lazily (CUDA programming guide, "Lazy Loading"), so a kernel that waits for the program
// until another kernel is launched never ends. Strict: so it is here.
bool loads_lazily();

// Whether memory of cuMemCreate can be memory for GPUDirect RDMA; not with CKPT_SOFTCUDA_RDMA=0.
bool rdma_capable();

// What cuDriverGetVersion reports. CKPT_SOFTCUDA_DRIVER sets it: a branch of NVIDIA's driver (570)
// or the version itself (12080).
int driver_version();
// The first version with a map of devices in Restore: that of driver 580.
inline constexpr int kFirstVersionWithMaps = 13000;

// The file of CKPT_SOFTCUDA_FAULTS has lines such as "cuMemUnmap 999". It is read at each call that
// can fail so, and a test can write it while the program runs. The effects `hang`, `late` and
// `crash` take place in here.
struct Fault {
  bool nothing = false;           // the call returns success without its effect
  CUresult error = CUDA_SUCCESS;  // another value: the call returns it
};
Fault fault_at(const char *call);

#define FAIL_IF_ORDERED(call) \
  if (Fault ordered_ = fault_at(call); ordered_.error != CUDA_SUCCESS) return ordered_.error

}  // namespace ckpt::softcuda::driver
