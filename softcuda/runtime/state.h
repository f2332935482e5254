// SPDX-License-Identifier: Apache-2.0
//
// The runtime API is a layer over the driver API: what it adds is the device of a thread, the last
// error, and the names of kernels and variables by their addresses on the host.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CUDART_API extern "C" __attribute__((visibility("default")))

namespace ckpt::softcuda::runtime {

// The numbers of both APIs' errors are the same.
inline cudaError_t as_runtime(CUresult e) { return static_cast<cudaError_t>(e); }

// Remembers an error for cudaGetLastError, and returns it.
cudaError_t keep(cudaError_t e);
cudaError_t last_error(bool forget);

int device_of_thread();
cudaError_t set_device(int device);
// Initialises the driver, and gives the thread the primary context of its device.
cudaError_t enter();
// As enter(), without a context.
cudaError_t initialise();
// The thread's device has a new primary context.
void forget_context(int device);

// By address on the host, or by kernel handle.
cudaError_t kernel_of(const void *function, CUkernel &out);
cudaError_t variable_of(const void *symbol, CUdeviceptr &p, size_t &bytes);

// Both APIs' attributes are one structure, and stay where they are.
CUlaunchConfig as_driver(const cudaLaunchConfig_t &config);

#define RETURN_IF(...)                                                                        \
  do {                                                                                        \
    if (cudaError_t checked_ = (__VA_ARGS__); checked_ != cudaSuccess) return keep(checked_); \
  } while (0)

// The whole of a function that is one call of the driver.
#define FORWARD(...)  \
  RETURN_IF(enter()); \
  return keep(as_runtime(__VA_ARGS__))

}  // namespace ckpt::softcuda::runtime
