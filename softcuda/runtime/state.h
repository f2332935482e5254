// SPDX-License-Identifier: Apache-2.0
//
// The runtime API is a layer over the driver API. It adds each thread's device and last error, and
// finds kernels and variables by their addresses on the host.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CUDART_API extern "C" __attribute__((visibility("default")))

namespace ckpt::softcuda::runtime {

// Both APIs use the same error numbers.
inline cudaError_t as_runtime(CUresult e) { return static_cast<cudaError_t>(e); }

// Stores an error for cudaGetLastError, and returns it.
cudaError_t keep(cudaError_t e);
// `forget`: also resets it to cudaSuccess.
cudaError_t last_error(bool forget);

int device_of_thread();
cudaError_t set_device(int device);
// The devices that threads without cudaSetDevice may use, in order of priority; none: all of them.
cudaError_t set_valid_devices(const int *devices, int n);
// Initialises the driver, and makes the primary context of the thread's device current if the
// thread has no context.
cudaError_t enter();
// Initialises the driver only.
cudaError_t initialise();

// The primary context of a device; cudaErrorInvalidDevice: there is no such device.
cudaError_t primary_of(int device, CUcontext &out);

// A kernel by its address on the host or its handle, and a variable by its address on the host.
cudaError_t kernel_of(const void *function, CUkernel &out);
cudaError_t variable_of(const void *symbol, CUdeviceptr &p, size_t &bytes);
// The address on the host of a kernel that nvcc registered; of any other, its handle.
const void *host_function(CUkernel kernel);

// The attributes have the same layout in both APIs and are not copied.
CUlaunchConfig as_driver(const cudaLaunchConfig_t &config);

#define RETURN_IF(...)                                                                        \
  do {                                                                                        \
    if (cudaError_t checked_ = (__VA_ARGS__); checked_ != cudaSuccess) return keep(checked_); \
  } while (0)

// The body of a function that makes one call of the driver API.
#define FORWARD(...)  \
  RETURN_IF(enter()); \
  return keep(as_runtime(__VA_ARGS__))

}  // namespace ckpt::softcuda::runtime
